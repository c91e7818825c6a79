import inspect
import textwrap

import pytest
import tiny
import torch
from other_threads import in_another_thread

from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.patching import applied
from onnxfn.specs.errors import UnknownName
from onnxfn.specs.records import Patch


class Stopped(Exception):
    """An error in the middle."""


def model():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    module.register_buffer("cache", torch.zeros(1))
    return module.train()


def test_a_model_is_in_evaluation_mode_inside_and_as_before_afterwards():
    module = model()
    module[1].eval()
    with unchanged_eval(module):
        assert not any(module.training for module in module.modules())
    assert [module.training for module in module.modules()] == [True, True, False]


def test_attributes_and_buffers_that_forward_adds_are_removed_also_after_an_error():
    module = model()
    before = (list(vars(module)), dict(module._buffers), list(module[0]._parameters))
    with pytest.raises(Stopped), unchanged_eval(module):
        module.seen = 3
        module.cache = torch.ones(1)
        module.register_buffer("more", torch.ones(1))
        del module[0].bias
        raise Stopped
    assert (list(vars(module)), dict(module._buffers), list(module[0]._parameters)) == before


def test_hooks_that_forward_adds_are_removed():
    """transformers registers hooks where hidden states are requested, and sets an attribute that says so."""
    module, calls = model(), []
    with unchanged_eval(module):
        module[0].register_forward_hook(lambda *_: calls.append("a hook"))
        module(torch.zeros(1, 2))
    module(torch.zeros(1, 2))
    assert calls == ["a hook"]
    assert not module[0]._forward_hooks


@pytest.mark.parametrize(("implementation", "inside"), [("eager", "eager"), (None, "sdpa")])
def test_the_attention_implementation_is_restored(implementation, inside):
    module = tiny.model("llama", "AutoModelForCausalLM")
    with unchanged_eval(module, implementation):
        assert module.config._attn_implementation == inside
    assert module.config._attn_implementation == "sdpa"


WRAP = Patch("textwrap:TextWrapper.wrap", by="textwrap:dedent", why="a test")


def test_a_method_is_replaced_inside_and_restored_also_after_an_error():
    before = textwrap.TextWrapper.wrap
    with pytest.raises(Stopped), applied((WRAP,)):
        assert inspect.unwrap(textwrap.TextWrapper.wrap) is textwrap.dedent
        assert in_another_thread(lambda: textwrap.TextWrapper(width=3).wrap("a b c")) == ["a b", "c"]
        raise Stopped
    assert textwrap.TextWrapper.wrap is before


class Upsampler:
    """A class with an attribute of its instances, a static method and an inherited method."""

    def __init__(self):
        self.count = 2

    @staticmethod
    def scale(factor):
        return factor


Inheriting = type("Inheriting", (Upsampler,), {})


def with_patch(name, by):
    return applied((Patch(f"{__name__}:{name}", by=f"{__name__}:{by}", why="a test"),))


def doubled(self, factor=1):
    return 2 * factor * self.count


def test_a_static_and_an_inherited_method_are_themselves_in_another_thread():
    for class_ in (Upsampler, Inheriting):
        with with_patch(f"{class_.__name__}.scale", "doubled"):
            assert class_().scale(3) == 12
            assert in_another_thread(lambda class_=class_: (class_().scale(3), class_.scale(4))) == (3, 4)
        assert class_().scale(3) == 3


def test_an_unknown_replacement_is_an_error_and_nothing_stays_replaced():
    before = textwrap.TextWrapper.wrap
    missing = Patch("textwrap:TextWrapper.fill", by="textwrap:no_such", why="a test")
    with pytest.raises(UnknownName, match="no patch 'no_such' for 'textwrap:no_such'"), applied((WRAP, missing)):
        pass
    assert textwrap.TextWrapper.wrap is before
