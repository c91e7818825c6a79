"""The edits of a spec that the flags of the command line ask for, as a record and a function."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, cast

from attrs import field, frozen

from onnxfn.export.lookup.lookup import checkpoint_task, spec_for
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import known_sizes, sized
from onnxfn.specs.edits.adapter_inputs import with_adapter_inputs
from onnxfn.specs.edits.behaviors import split, with_behavior
from onnxfn.specs.edits.expanded_cache import with_expanded_cache
from onnxfn.specs.edits.extra_outputs import with_outputs
from onnxfn.specs.edits.optional_inputs import with_input
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.edits.shared_cache import with_shared_cache
from onnxfn.specs.edits.tensors import with_dtypes, with_opset, with_shapes, with_tolerance, without
from onnxfn.specs.edits.token_embeddings import with_inputs_embeds
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.field_types import typed_fields
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.short_repr import short_repr
from onnxfn.specs.spec import ExportSpec, FloatDtype, known_opset, known_tolerance
from onnxfn.specs.tasks import WITH_PAST, for_some_task
from onnxfn.weights.layouts import layout_of

Sizes = tuple[tuple[str, int], ...]
"""Names of axes and their sizes."""

Shapes = tuple[tuple[str, int | tuple[int, int]], ...]
"""Names of axes, each with its size, or with its smallest and largest size."""


@frozen(kw_only=True, field_transformer=typed_fields)
class SpecEdits:
    """Edits of the spec for a checkpoint, as data: those that flags of the command line and jobs of a file ask for.

    Attributes:
        task: The task; None: the task of the checkpoint.
        opset: The ONNX opset; None: that of the spec.
        dtype: The dtype of the floating point weights, inputs and outputs.
        io_dtype: The dtype of float inputs and outputs that are no cache; None: that of the weights.
        atol: The absolute tolerance of the check; None: that of the spec.
        rtol: The relative tolerance of the check; None: that of the spec.
        sizes: Sizes of axes in the dummy inputs.
        shapes: Sizes of axes that are fixed in the graph, or the smallest and largest size of axes that stay dynamic.
        outputs: Names of optional outputs to add, such as `hidden_states`.
        inputs: Names of optional inputs to add, such as `attention_mask`.
        without: Names of inputs and outputs that no graph has.
        names: Other names for inputs, outputs and tensors of a cache, each as a text `OLD=NEW`.
        inputs_embeds: Whether the graph takes embeddings instead of token ids.
        monolith: Whether an encoder-decoder is one file, without a past.
        split: Whether each part of the model gets a file of its own.
        adapter_inputs: Linear layers for which the graph takes a LoRA adapter.
        shared_cache: Whether past and present of a decoder may lie in one buffer.
        expanded_cache: Whether a cache of latents is expanded to the keys and values of all heads.

    >>> SpecEdits(task="fill-mask", opset=20)
    SpecEdits(task='fill-mask', opset=20)
    """

    __repr__ = short_repr

    task: str | None = None
    opset: int | None = field(default=None, validator=known_opset)
    dtype: str = "float32"
    io_dtype: str | None = None
    atol: float | None = field(default=None, validator=known_tolerance)
    rtol: float | None = field(default=None, validator=known_tolerance)
    sizes: Sizes = ()
    shapes: Shapes = ()
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inputs_embeds: bool = False
    monolith: bool = False
    split: bool = False
    adapter_inputs: tuple[str, ...] = ()
    shared_cache: bool = False
    expanded_cache: bool = False


def edited_spec(config_or_model: Any, edits: SpecEdits) -> ExportSpec:
    """The spec for a configuration, or for a model whose type has no row, with the edits applied."""
    spec = _spec(config_or_model, edits)
    spec = spec if edits.opset is None else with_opset(spec, edits.opset)
    spec = with_tolerance(spec, atol=edits.atol, rtol=edits.rtol)
    float_dtype, io_dtype = cast("FloatDtype", edits.dtype), cast("FloatDtype", edits.io_dtype)
    spec = with_dtypes(split(for_some_task(spec)) if edits.split else spec, float=float_dtype, io=io_dtype)
    spec = with_shapes(with_outputs(spec, *edits.outputs), **dict(edits.shapes))
    spec = without(reduce(with_input, edits.inputs, spec), *edits.without)
    known_sizes(plan(spec, config_or_model).parts[0].spec, dict(edits.sizes))
    spec = compose(spec, sized(**dict(edits.sizes)))
    spec = with_adapter_inputs(spec, *edits.adapter_inputs) if edits.adapter_inputs else spec
    spec = with_expanded_cache(spec) if edits.expanded_cache else spec
    spec = with_shared_cache(spec) if edits.shared_cache else spec
    return renamed(with_inputs_embeds(spec) if edits.inputs_embeds else spec, **parsed_names("--rename", edits.names))


def _spec(config_or_model: Any, edits: SpecEdits) -> ExportSpec:
    """The spec for the task of the edits; that of the model in one file, if they ask for it and it would have several.

    InvalidSpec for such a model that has no graph of its own as a whole.
    """
    task = edits.task or checkpoint_task(config_or_model)
    spec = spec_for(config_or_model, task)
    if not edits.monolith or len(plan(spec, config_or_model).parts) == 1:
        return spec
    return with_behavior(for_some_task(spec_for(config_or_model, task and task.removesuffix(WITH_PAST))), "monolith")


def parsed_sizes(flag: str, values: Iterable[str]) -> Sizes:
    """The names and sizes in the values of a flag; InvalidSpec if a value is not NAME=NUMBER.

    >>> parsed_sizes("--size", ["batch_size=1", "sequence_length=32"])
    (('batch_size', 1), ('sequence_length', 32))
    """
    pairs = [value.partition("=") for value in values]
    for name, _, size in pairs:
        if not size.isdecimal():
            raise InvalidSpec(f"{flag} {name} has no number; write {flag} {name or 'sequence_length'}=32")
    return tuple((name, int(size)) for name, _, size in pairs)


def parsed_names(flag: str, values: Iterable[str]) -> dict[str, str]:
    """From old to new names in the values of a flag; InvalidSpec if a value is not OLD=NEW.

    >>> parsed_names("--rename", ["present.{layer}.key=present_key_{layer}"])
    {'present.{layer}.key': 'present_key_{layer}'}
    """
    pairs = [value.partition("=")[::2] for value in values]
    for old, new in pairs:
        if not (old and new):
            raise InvalidSpec(f"{flag} {old} has no new name; write {flag} OLD=NEW")
    return dict(pairs)


def parsed_shapes(flag: str, values: Iterable[str]) -> Shapes:
    """The names and sizes in the values of a flag; InvalidSpec if a value is not NAME=NUMBER or NAME=NUMBER:NUMBER.

    >>> parsed_shapes("--shape", ["batch_size=1", "sequence_length=1:128"])
    (('batch_size', 1), ('sequence_length', (1, 128)))
    """
    return tuple(_parsed_shape(flag, *value.partition("=")[::2]) for value in values)


def _parsed_shape(flag: str, name: str, text: str) -> tuple[str, int | tuple[int, int]]:
    match [int(number) for number in text.split(":") if number.isdecimal()]:
        case [size] if text.isdecimal():
            return name, size
        case [low, high] if text.count(":") == 1 and low < high:
            return name, (low, high)
    axis = name or "sequence_length"
    raise InvalidSpec(
        f"{flag} {name}={text} is no size and no range of sizes; write {flag} {axis}=32, or {flag} {axis}=1:128 for "
        "sizes from 1 to 128"
    )


def suffixed_dtypes(dtypes: Iterable[str], layout: str) -> tuple[str, ...]:
    """The dtypes whose files get suffixes: several, or one that the layout gives its suffix; else none.

    >>> suffixed_dtypes(["q8"], "optimum"), suffixed_dtypes(["q8"], "hub")
    ((), ('q8',))
    """
    names = tuple(dtypes)
    return names if len(names) > 1 or (layout_of(layout).suffixes and names != ("float32",)) else ()


def spec_dtype(dtypes: Iterable[str], layout: str) -> str:
    """The dtype of the spec: the only one whose files get no suffix, else float32."""
    names = tuple(dtypes)
    return names[0] if names and not suffixed_dtypes(names, layout) else "float32"
