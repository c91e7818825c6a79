"""While a graph is built, the garbage collector leaves older objects alone, and treats all alike afterwards."""

from __future__ import annotations

import gc

import pytest

from onnxfn.graphs.old_objects import old_objects_not_collected


class Node:
    pass


def cycle():
    node = Node()
    node.itself = node


def nodes():
    return sum(isinstance(value, Node) for value in gc.get_objects())


@pytest.fixture
def no_automatic_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.usefixtures("no_automatic_collection")
def test_garbage_from_before_is_collected_afterwards():
    cycle()
    with pytest.raises(ValueError, match="stop"), old_objects_not_collected():
        cycle()
        gc.collect()
        assert nodes() == 0  # the new one is collected, and the old one is out of sight
        raise ValueError("stop")
    assert (nodes(), gc.get_freeze_count()) == (1, 0)
    gc.collect()
    assert nodes() == 0


@pytest.mark.usefixtures("no_automatic_collection")
def test_objects_that_the_process_froze_stay_frozen():
    gc.freeze()
    try:
        with old_objects_not_collected():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
