"""Patches replace functions of the package that their target names, and of no other."""

import os

import pytest
import tiny
from refusals import refusal

import onnxfn
from onnxfn.models.patching import applied
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.records import Patch


def apply(target, by="attention.alibi_bias"):
    with applied((Patch(target, by=by, why="why"),)):
        pass


def test_a_patch_does_not_reach_through_a_module_that_the_package_imports():
    system = os.system
    assert refusal(InvalidSpec, apply, "torch.serialization:os.system") == (
        "the target of the patch 'torch.serialization:os.system' lies in os: name it there"
    )
    assert os.system is system


def test_a_patch_by_an_unknown_function_keeps_its_error_and_leaves_the_target():
    import transformers.models.bert.modeling_bert as module

    before = dict(vars(module))
    message = refusal(UnknownName, apply, f"{module.__name__}.nope", "nope")
    assert message.startswith("no patch 'nope'; known: ")
    assert vars(module) == before


def test_a_patch_of_a_module_that_does_not_exist_is_an_unknown_name():
    message = refusal(UnknownName, apply, "transformers.models.nope.f")
    assert message.startswith(
        "target of a patch 'transformers.models.nope.f': module 'transformers.models.nope' cannot"
    )


def zeros(_, tensor):
    return tensor * 0


def test_a_patch_of_a_function_that_the_model_does_not_call_is_refused(tmp_path):
    """The layers hold the function that they were built with, so that a patch of its module does nothing."""
    model = tiny.model("bert", "AutoModel")
    unread = onnxfn.patched("torch.nn.functional:gelu", by=f"{__name__}:zeros", why="a test")
    spec = onnxfn.compose(onnxfn.spec_for("bert", "feature-extraction"), unread)
    message = (
        "the patch of torch.nn.functional:gelu has no effect: BertModel does not call that; patch what it calls, such "
        "as package.module:Class.forward, or a function in the module that imports it"
    )
    assert refusal(InvalidSpec, onnxfn.export, spec, model, tmp_path / "out") == message
    read = onnxfn.patched("transformers.activations:GELUActivation.forward", by=f"{__name__}:zeros", why="a test")
    with pytest.raises(onnxfn.CheckFailed):
        onnxfn.export(onnxfn.compose(onnxfn.spec_for("bert", "feature-extraction"), read), model, tmp_path / "out")
