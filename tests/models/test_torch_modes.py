"""`quiet` drops warnings of one thread and logs of the tracing libraries in it; everything else is heard."""

import logging
import warnings
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import psutil
import pytest
import torch
from other_threads import in_another_thread
from transformers.pytorch_utils import compile_compatible_method_lru_cache

from onnxfn import InvalidSpec
from onnxfn.models.torch_modes import idle_threads, quiet, shapes_alone, stable_sorts


@pytest.fixture
def heard():
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def test_logs_of_the_tracing_libraries_are_dropped_and_the_hosts_are_not(heard):
    with quiet():
        logging.getLogger("onnxscript.rewriter").error("traced")
        logging.getLogger("onnx_ir").error("traced")
        logging.getLogger("host").error("host")
    logging.getLogger("onnxscript.rewriter").error("after")
    assert heard == ["host", "after"]


def test_logs_of_another_thread_are_heard(heard):
    with quiet():
        in_another_thread(logging.getLogger("onnxscript.elsewhere").error, "theirs")
    assert heard == ["theirs"]


def test_warnings_are_not_shown_and_their_settings_are_restored():
    filters, show = list(warnings.filters), warnings.showwarning
    with warnings.catch_warnings(record=True, action="always") as shown:
        with quiet():
            warnings.warn("traced", stacklevel=1)
        warnings.warn("after", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["after"]
    assert (list(warnings.filters), warnings.showwarning) == (filters, show)


def test_warnings_of_another_thread_are_shown():
    with warnings.catch_warnings(record=True, action="always") as shown, quiet():
        in_another_thread(lambda: warnings.warn_explicit("theirs", UserWarning, "torch/nn.py", 1, "torch.nn"))
        warnings.warn_explicit("traced", UserWarning, "torch/nn.py", 1, "torch.nn")
    assert [str(warning.message) for warning in shown] == ["theirs"]


def test_a_filter_that_another_thread_restores_afterwards_matches_nothing():
    """Thread A is quiet, thread B saves the filters, A ends, B restores them."""
    with warnings.catch_warnings(record=True, action="always") as shown:
        theirs = warnings.catch_warnings()
        with quiet():
            in_another_thread(theirs.__enter__)
        in_another_thread(theirs.__exit__)
        warnings.warn("after", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["after"]


def test_filters_are_restored_after_an_error():
    before = list(warnings.filters), logging.Logger.handle
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    assert (list(warnings.filters), logging.Logger.handle) == before


def test_many_threads_at_once_restore_the_filters():
    before = list(warnings.filters)

    def enter_and_leave():
        for _ in range(20):
            with quiet():
                warnings.warn("traced", stacklevel=1)

    with ThreadPoolExecutor(8) as pool:
        wait([pool.submit(enter_and_leave) for _ in range(8)])
    assert list(warnings.filters) == before


@pytest.mark.parametrize("first", [0, 1])
def test_filters_are_restored_in_whatever_order_two_are_left(first):
    before = list(warnings.filters)
    stacks = (ExitStack(), ExitStack())
    for stack in stacks:
        stack.enter_context(quiet())
    stacks[first].close()
    warnings.warn("traced", stacklevel=1)
    stacks[1 - first].close()
    assert list(warnings.filters) == before


def test_a_table_that_a_model_keeps_has_values_after_a_run_without():
    table = compile_compatible_method_lru_cache(maxsize=32)(torch.arange)
    with shapes_alone():
        assert table(4).shape == (4,)
    assert table(4).tolist() == [0, 1, 2, 3]


def test_there_are_as_many_threads_as_idle_cores_and_afterwards_as_many_as_before(monkeypatch):
    before, mixed = torch.get_num_threads(), [100.0, 3.0, 96.0, 0.0]
    for own, asked, busy, expected in ((8, None, mixed, 2), (1, None, mixed, 1), (8, None, [99.0], 1), (2, 5, [], 5)):
        monkeypatch.setattr(psutil, "cpu_percent", lambda *_, busy=busy, **__: busy)
        torch.set_num_threads(own)
        with idle_threads(asked):
            assert torch.get_num_threads() == expected
        assert torch.get_num_threads() == own
    for ends_meanwhile in (False, True):  # an export beside another, which may end while this one looks for idle cores
        first, second, other = ExitStack(), ExitStack(), ExitStack()
        first.enter_context(idle_threads(3))
        monkeypatch.setattr(psutil, "cpu_percent", lambda *_, ended=(other, first)[ends_meanwhile], **__: ended.close())
        second.enter_context(idle_threads(4))
        first.close()
        second.close()
        assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    with pytest.raises(InvalidSpec, match="threads is 0"), idle_threads(0):
        pass


# Equal values keep their order, as in ONNX

EQUAL = torch.zeros(2, 40, dtype=torch.int32)


def test_values_are_sorted_and_equal_ones_keep_their_order():
    in_order, values = torch.arange(40).expand(2, 40), torch.randn(3, 50)
    with stable_sorts():
        assert torch.equal(torch.argsort(EQUAL, descending=True), in_order)
        assert torch.equal(EQUAL.argsort(1, True), in_order)
        assert torch.equal(torch.sort(EQUAL, dim=1, stable=False).indices, in_order)
        assert torch.equal(EQUAL.sort(-1, descending=True)[1], in_order)
        ordered, indices = values.sort(0, descending=True)
    assert torch.equal(torch.argsort(EQUAL, stable=True), in_order)
    assert torch.equal(values.gather(0, indices), ordered)
    assert bool((ordered.diff(dim=0) <= 0).all())
