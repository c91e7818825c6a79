"""A function that stands for another takes each argument of it, and means the same."""

import ast
import builtins
import inspect
import re
import textwrap
from collections import defaultdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from types import SimpleNamespace

import every_part
import pytest
import torch
from declared_specs import specs_for_derivation, specs_of_rows
from refusals import refusal

import onnxfn.architectures.patches
from onnxfn import ARCHITECTURES, with_expanded_cache
from onnxfn.architectures import patch_table as table
from onnxfn.architectures.functions import function_named
from onnxfn.architectures.patch_table import PATCHES, module_patches
from onnxfn.architectures.private.renamed import name_among
from onnxfn.architectures.wrappers import latent_attention
from onnxfn.export.derive import derive
from onnxfn.export.derive.derive_sample import SLIDING_WINDOW_CACHE
from onnxfn.export.find import multimodal
from onnxfn.models.patching import _owner, applied
from onnxfn.specs.errors import PatchFailed
from onnxfn.specs.records import Patch

NOT_INSTALLED = ("diffusers", "timm")
"""Packages that tests do without, unless they are there."""

WITHOUT_SIGNATURE = ("torch:take_along_dim",)
"""Functions of C++, of which Python knows no signature."""

OF_ONE_VERSION = {
    "HYV4VLVisionModel.forward",
    "Kimi_K25VisionModel.temporal_merge",
    "WavTokenizerConv1d.forward",
    "get_vision_temporal_merge_index",
}
"""Functions that transformers 5.23 or 5.24 lacks, or has with another result."""

OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
"""The kinds of `*args` and `**kwargs`."""


@cache
def by_name():
    """The patches that the table has for the names of functions, in the modules of transformers."""
    owners = {name.rpartition(":")[2].partition(".")[0] for name in PATCHES} - {*dir(builtins)}
    folders = {name.partition(":")[0] for name in PATCHES}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(owners)))})\b")
    models = Path(find_spec("transformers").origin).parent / "models"
    found = []
    for path in sorted(models.glob("*/modeling_*.py")):
        if path.parent.name in folders or pattern.search(path.read_text(encoding="utf-8")):
            found += module_patches(import_module(f"transformers.models.{path.parent.name}.{path.stem}"))
    return tuple(found)


@cache
def patches():
    """Every patch of a row and of a derived spec, and those by the bare name of a function."""
    specs = [*specs_of_rows(), *specs_for_derivation(), with_expanded_cache(ARCHITECTURES["deepseek_v3"])]
    declared = [SLIDING_WINDOW_CACHE, *(patch for spec in specs for patch in spec.call.patches)]
    declared += [Patch(name, *PATCHES[name]) for name in PATCHES if "." in name.rpartition(":")[0]]
    return tuple({(patch.name, patch.by): patch for patch in (*declared, *by_name())}.values())


def missing_arguments(original, replacement):
    """The arguments, by name and place, with which a function can be called and its replacement cannot."""
    named = [parameter.name for parameter in original]
    needed = [parameter.name for parameter in replacement if is_needed(parameter)]
    dropped = [parameter for index, parameter in enumerate(original) if not is_taken(parameter, index, replacement)]
    return (
        *(parameter.name for parameter in dropped),
        *(name for name in needed if name_among(name, named) not in named),
    )


def parameters(function, *, of_instance=False):
    """The parameters of a function, that of its instance excepted; ValueError if Python knows no signature of it."""
    return tuple(inspect.signature(inspect.unwrap(function)).parameters.values())[of_instance:]


def is_taken(parameter, index, replacement):
    if parameter.kind in OPEN:
        return any(other.kind is parameter.kind for other in replacement)
    indices = {other.name: number for number, other in enumerate(replacement) if other.kind not in OPEN}
    name = name_among(parameter.name, indices)
    if name not in indices:
        return any(other.kind is Parameter.VAR_KEYWORD and not other.name.startswith("_") for other in replacement)
    other = replacement[indices[name]]
    is_placed = parameter.kind is Parameter.KEYWORD_ONLY or (
        indices[name] == index and other.kind is not Parameter.KEYWORD_ONLY
    )
    return is_placed and (is_needed(parameter) or not is_needed(other))


def is_needed(parameter):
    return parameter.kind not in OPEN and parameter.default is Parameter.empty


def body(function):
    """The code of a function without its docstring, decorators and annotations."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(tree, ast.FunctionDef)
    has_text = isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant)
    arguments = [argument for argument in ast.walk(tree.args) if isinstance(argument, ast.arg)]
    for argument in arguments:
        argument.annotation = None
    return ast.unparse([tree.args, *tree.body[has_text:]])


def test_each_patch_takes_what_the_original_takes():
    faults, compared = defaultdict(list), 0
    for patch in patches():
        package, _, path = patch.name.partition(":")
        is_installed = package.partition(".")[0] not in NOT_INSTALLED or find_spec(package.partition(".")[0])
        if not is_installed or patch.name in WITHOUT_SIGNATURE or hasattr(builtins, path):
            continue
        compared += 1
        owner, name = _owner(patch.name)
        replacement = function_named(patch.by, "patches", kind="patch")
        if isinstance(replacement, property):
            continue
        of_class = inspect.isclass(owner)  # a replacement gets the instance also where the original is a static method
        is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        original = parameters(getattr(owner, name), of_instance=of_class and not is_static)
        missing = missing_arguments(original, parameters(replacement, of_instance=of_class))
        if missing:
            faults[f"{patch.by} does not take {', '.join(missing)}"].append(patch.name)
    assert compared > 250  # fewer are no more all of them
    assert dict(faults) == {}


def test_functions_that_the_table_names_without_a_module_have_the_same_code():
    """By a bare name, a function may be one that has the same arguments and another meaning."""
    bodies = defaultdict(lambda: defaultdict(list))
    for patch in by_name():
        function = patch.name.partition(":")[2]
        if function in PATCHES:
            owner, name = _owner(patch.name)
            bodies[function][body(getattr(owner, name))].append(patch.name)
    assert {function: sorted(code.values()) for function, code in bodies.items() if len(code) > 1} == {}


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
    replacement = eval(f"lambda {signature}: None")
    assert missing_arguments(parameters(original), parameters(replacement)) == names


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


@pytest.mark.parametrize(("folder", "of_the_patch"), [("bart", True), ("mbart", False)])
def test_a_type_error_is_a_fault_of_a_patch_unless_the_original_refuses_the_call_too(folder, of_the_patch):
    module = import_module(f"transformers.models.{folder}.modeling_{folder}")
    patch = Patch(f"{module.__name__}:shift_tokens_right", by="attention.padding_mask", why="why")
    with applied((patch,)), pytest.raises(TypeError, match="decoder_start_token_id") as error:
        module.shift_tokens_right(None, 1, decoder_start_token_id=2)
    assert ("does not fit: " in str(error.value)) == isinstance(error.value, PatchFailed) == of_the_patch


def test_a_type_error_of_the_model_within_a_patch_stays_one():
    from transformers.models.bart import modeling_bart

    def refuses(*_, **__):
        raise TypeError("mine")

    name = f"{modeling_bart.__name__}:BartEncoderLayer.forward"
    layer = SimpleNamespace(self_attn=refuses)
    with applied((Patch(name, by="text.encoder_layer_output", why="why"),)), pytest.raises(TypeError) as error:
        modeling_bart.BartEncoderLayer.forward(layer, None)
    assert not isinstance(error.value, PatchFailed)


def test_an_argument_that_the_original_cannot_use_is_no_fault_of_a_patch():
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings

    name = f"{Siglip2VisionEmbeddings.__module__}:Siglip2VisionEmbeddings.resize_positional_embeddings"
    patch = Patch(name, by="packed_vision.resized_positional_embeddings", why="why")
    with applied((patch,)), pytest.raises(TypeError, match="NoneType") as error:
        Siglip2VisionEmbeddings.resize_positional_embeddings(None, torch.ones(2, 2, 4), None, 4)
    assert not isinstance(error.value, PatchFailed)
