"""A model held still is put back exactly, and a applied function too."""

from __future__ import annotations

import pytest
import torch

from onnxfn.graphs.capture.model_state import unchanged_eval
from onnxfn.graphs.capture.patching import applied
from onnxfn.specs.errors import UnknownName
from onnxfn.specs.records import Patch


class Stopped(Exception):
    """What goes wrong in the middle."""


def model():
    made = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    made.register_buffer("cache", torch.zeros(1))
    return made.train()


def test_a_model_is_in_evaluation_mode_while_it_is_held_and_as_before_afterwards():
    held = model()
    held[1].eval()
    with unchanged_eval(held):
        assert not any(module.training for module in held.modules())
    assert [module.training for module in held.modules()] == [True, True, False]


def test_what_a_forward_leaves_behind_is_gone_also_after_an_error():
    held = model()
    before = (list(vars(held)), dict(held._buffers), list(held[0]._parameters))
    with pytest.raises(Stopped), unchanged_eval(held):
        held.seen = 3
        held.cache = torch.ones(1)
        held.register_buffer("more", torch.ones(1))
        del held[0].bias
        raise Stopped
    assert (list(vars(held)), dict(held._buffers), list(held[0]._parameters)) == before


def test_hooks_that_a_forward_leaves_behind_are_gone():
    held = model()
    with unchanged_eval(held):
        held[0].register_forward_hook(print)
    assert not held[0]._forward_hooks


PLACE = Patch("textwrap:TextWrapper.wrap", by="textwrap:dedent", why="a test")


def test_a_hook_that_a_forward_leaves_behind_is_gone():
    """Transformers hangs hooks in where hidden states are asked for, and notes in an attribute that it has."""
    held, heard = model(), []
    with unchanged_eval(held):
        held[0].register_forward_hook(lambda *_: heard.append("a hook"))
        held(torch.zeros(1, 2))
    held(torch.zeros(1, 2))
    assert heard == ["a hook"]


def test_a_function_is_replaced_for_a_while_also_when_it_ends_in_an_error():
    import textwrap

    before = textwrap.TextWrapper.wrap
    with pytest.raises(Stopped), applied((PLACE,)):
        assert textwrap.TextWrapper.wrap is textwrap.dedent
        raise Stopped
    assert textwrap.TextWrapper.wrap is before


def test_a_module_level_function_can_be_replaced():
    import textwrap

    with applied((Patch("textwrap:shorten", by="textwrap:dedent", why="a test"),)):
        assert textwrap.shorten is textwrap.dedent
    assert textwrap.shorten is not textwrap.dedent


def test_what_a_class_does_not_say_itself_is_said_for_a_while():
    import textwrap

    with applied((Patch("textwrap:TextWrapper.no_such", by="textwrap:dedent", why="a test"),)):
        assert textwrap.TextWrapper.no_such is textwrap.dedent
    assert not hasattr(textwrap.TextWrapper, "no_such")


def test_a_replacement_that_does_not_exist_is_refused_and_nothing_stays_replaced():
    import textwrap

    before = textwrap.TextWrapper.wrap
    missing = Patch("textwrap:TextWrapper.fill", by="textwrap:no_such", why="a test")
    with pytest.raises(UnknownName, match="no patch 'no_such' for 'textwrap:no_such'"), applied((PLACE, missing)):
        pass
    assert textwrap.TextWrapper.wrap is before
