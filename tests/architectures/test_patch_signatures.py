"""A function that stands for another takes each argument of it, and means the same."""

import ast
import builtins
from collections import defaultdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import every_part
import pytest
import replaced_functions
from declared_specs import specs_for_derivation, specs_of_rows
from patch_arguments import missing_arguments, parameters, replaced_parameters
from refusals import refusal

import onnxfn.architectures.patches
from onnxfn import with_expanded_cache
from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures import patch_table as table
from onnxfn.architectures.functions import function_named
from onnxfn.architectures.patch_table import PATCHES, module_patches
from onnxfn.architectures.wrappers import latent_attention
from onnxfn.export.derive import derive
from onnxfn.export.derive.derive_sample import SLIDING_WINDOW_CACHE
from onnxfn.export.find import multimodal
from onnxfn.models.patching import _owner, applied
from onnxfn.specs.errors import PatchFailed
from onnxfn.specs.records import Patch

NOT_INSTALLED = ("diffusers", "timm")
"""Packages that tests do without, unless they are there."""

MOST_OF_THEM = 250
"""Fewer patches than this are no more all of them."""

WITHOUT_SIGNATURE = ("torch:take_along_dim",)
"""Functions of C++, of which Python knows no signature."""

OF_ONE_VERSION = {
    "HYV4VLVisionModel.forward",
    "Kimi_K25VisionModel.temporal_merge",
    "WavTokenizerConv1d.forward",
    "get_vision_temporal_merge_index",
}
"""Functions that transformers 5.23 or 5.24 lacks, or has with another result."""


@cache
def by_name():
    """The patches that the table has for the names of functions, in the modules of transformers."""
    modules = replaced_functions.modules_with_patched_functions()
    return tuple(patch for module in modules for patch in module_patches(module))


@cache
def patches():
    """Every patch of a row and of a derived spec, and those by the bare name of a function."""
    specs = [*specs_of_rows(), *specs_for_derivation(), with_expanded_cache(ARCHITECTURES["deepseek_v3"])]
    declared = [SLIDING_WINDOW_CACHE, *(patch for spec in specs for patch in spec.call.patches)]
    declared += [Patch(name, *PATCHES[name]) for name in PATCHES if "." in name.rpartition(":")[0]]
    return tuple({(patch.name, patch.by): patch for patch in (*declared, *by_name())}.values())


def replaced_and_replacement(patch):
    """The parameters of both; the test passes over what is not installed or has no signature."""
    owner, name = _owner(patch.name)
    replacement = function_named(patch.by, "patches", kind="patch")
    return None if isinstance(replacement, property) else replaced_parameters(owner, name, replacement)


def is_compared(patch):
    package = patch.name.partition(":")[0].partition(".")[0]
    hides_python = hasattr(builtins, patch.name.partition(":")[2])
    return (
        (find_spec(package) or package not in NOT_INSTALLED)
        and patch.name not in WITHOUT_SIGNATURE
        and not hides_python
    )


def test_each_patch_takes_what_the_original_takes():
    faults = defaultdict(list)
    compared = [patch for patch in patches() if is_compared(patch)]
    assert len(compared) > MOST_OF_THEM
    for patch in compared:
        both = replaced_and_replacement(patch)
        missing = missing_arguments(*both) if both else ()
        if missing:
            faults[f"{patch.by} does not take {', '.join(missing)}"].append(patch.name)
    assert dict(faults) == {}


def test_functions_that_the_table_names_without_a_module_have_the_same_code():
    """By a bare name, a function may be one that has the same arguments and another meaning."""
    bodies = defaultdict(lambda: defaultdict(list))
    for patch in by_name():
        function = patch.name.partition(":")[2]
        if function in PATCHES:
            owner, name = _owner(patch.name)
            bodies[function][replaced_functions.body(getattr(owner, name))].append(patch.name)
    several = {function: sorted(code.values()) for function, code in bodies.items() if len(code) > 1}
    assert several == {}


def test_each_function_in_the_table_exists():
    found = {patch.name.partition(":")[2] for patch in by_name()}
    of_models = {name.rpartition(":")[2] for name in PATCHES if "." not in name.rpartition(":")[0]}
    assert of_models - found <= OF_ONE_VERSION


@pytest.mark.parametrize(("folder", "function"), [("bart", "shift_tokens_right"), ("bloom", "build_alibi_tensor")])
def test_a_function_with_the_name_of_another_is_not_replaced(folder, function):
    """BART shifts in front of the text what it gets; Bloom multiplies in float32."""
    module = import_module(f"transformers.models.{folder}.modeling_{folder}")
    assert function not in {patch.name.partition(":")[2] for patch in module_patches(module)}


def test_options_that_a_patch_takes_are_passed_on():
    """`**options` counts as taking every argument, so that its name is read; `**_` is dropped."""
    unread = []
    for path in Path(onnxfn.architectures.patches.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and function.args.kwarg:
                name = function.args.kwarg.arg
                read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                unread += [] if name.startswith("_") or name in read else [f"{path.stem}.{function.name}"]
    assert unread == []


def test_the_cache_of_expanded_keys_takes_what_a_cache_takes():
    from transformers import DynamicCache

    original = parameters(DynamicCache.update, of_instance=True)
    assert missing_arguments(original, parameters(latent_attention.unexpanded({}))) == ()


def original(query, key, *, scale=1.0):
    return query, key, scale


def missing(signature):
    """The arguments of `original` that a function with this signature does not take."""
    return missing_arguments(parameters(original), parameters(eval(f"lambda {signature}: None")))


@pytest.mark.parametrize(
    ("signature", "names"),
    [
        ("query, key, *, scale=1.0", ()),
        ("query, key, *, scale=1.0, more=None", ()),
        ("query, key, **options", ()),
        ("query, key, **_", ("scale",)),
        ("key, query, *, scale=1.0", ("query", "key")),
        ("query, *, key, scale=1.0", ("key",)),
        ("query, key, *, scale", ("scale",)),
        ("query, key, mask, **options", ("mask",)),
    ],
)
def test_the_arguments_that_a_function_does_not_take(signature, names):
    assert missing(signature) == names


# Errors of a patch


def narrow(_):
    raise AssertionError("a call without an argument")


@pytest.fixture
def narrow_patch(monkeypatch):
    """Adds a patch that lacks an argument to the table."""

    def add(name):
        monkeypatch.setattr(table, "PATCHES", {**PATCHES, name: (f"{__name__}:narrow", "a test")})

    return add


def test_a_patch_that_lacks_an_argument_is_no_refusal_of_a_cache(llama, narrow_patch):
    narrow_patch("LlamaMLP.forward")
    assert refusal(PatchFailed, derive.derive_from_model, llama, "text-generation") == (
        f"the patch {__name__}:narrow of transformers.models.llama.modeling_llama:LlamaMLP.forward does not fit: "
        "narrow() takes 1 positional argument but 2 were given"
    )


def test_a_patch_that_lacks_an_argument_is_no_refusal_of_a_tower(narrow_patch):
    narrow_patch("CLIPMLP.forward")
    task = "image-text-to-text-with-past"
    model = every_part.tiny_model("llava", task)
    target = f"{type(model.model.vision_tower).__module__}:CLIPMLP.forward"
    message = refusal(PatchFailed, multimodal.multimodal_spec, model, task)
    assert message.startswith(f"the patch {__name__}:narrow of {target} does not fit: ")


def test_a_type_error_of_a_patch_of_a_row_is_its_own():
    from transformers.models.bart import modeling_bart

    name = f"{modeling_bart.__name__}:shift_tokens_right"
    patch = Patch(name, by="attention.padding_mask", why="why")
    with applied((patch,)), pytest.raises(PatchFailed, match=r"does not fit: .*decoder_start_token_id"):
        modeling_bart.shift_tokens_right(None, 1, decoder_start_token_id=2)


def test_a_call_that_the_original_refuses_too_is_no_fault_of_the_patch():
    from transformers.models.mbart import modeling_mbart

    name = f"{modeling_mbart.__name__}:shift_tokens_right"
    patch = Patch(name, by="attention.padding_mask", why="why")
    with applied((patch,)), pytest.raises(TypeError) as error:
        modeling_mbart.shift_tokens_right(None, 1, decoder_start_token_id=2)
    assert not isinstance(error.value, PatchFailed)


def test_a_type_error_of_the_model_within_a_patch_stays_one():
    from transformers.models.bart import modeling_bart

    def refuses(*_, **__):
        raise TypeError("mine")

    name = f"{modeling_bart.__name__}:BartEncoderLayer.forward"
    layer = SimpleNamespace(self_attn=refuses)
    with applied((Patch(name, by="text.encoder_layer_output", why="why"),)), pytest.raises(TypeError) as error:
        modeling_bart.BartEncoderLayer.forward(layer, None)
    assert not isinstance(error.value, PatchFailed)
