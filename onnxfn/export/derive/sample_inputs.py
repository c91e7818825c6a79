"""The inputs of any module, from sample tensors and axis patterns, and a case beyond its sliding windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnxfn.export.derive.probe import tensor_kind
from onnxfn.export.derive.sample_arguments import SampleTensor
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.facts import case, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import AxisMap, axis_map, solve_for_name
from onnxfn.specs.axis_symbols import SMALLEST_DYNAMIC_SIZE
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.text_cases import LONG_TEXT, LONGEST
from onnxfn.specs.records import KINDS, Kind

WINDOWS = ("sliding_window", "attention_chunk_size", "window_size", "local_attention")
"""The keys of configurations for the window of attention in tokens."""

BEYOND = 3
"""By how much the long case is longer than the window."""


def inner_models(model: Any) -> tuple[Any, ...]:
    """The modules of transformers inside a module that have a configuration."""
    return tuple(
        module
        for module in model.modules()
        if type(module).__module__.startswith("transformers.") and hasattr(module, "config")
    )


def with_windows(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec of a module with a case that is longer than the windows inside, if one is longer than the other cases.

    A window of more than 512 tokens costs too much.
    """
    planned = resolved(spec, {})
    batch, sizes = batch_symbol(planned), known_sizes(planned, {})
    lengths = {name: size for name, size in sizes.items() if name != batch}
    affordable = [window for window in windows(model) if window + BEYOND <= LONGEST]
    longest = max(affordable, default=0) + BEYOND
    if not affordable or all(longest <= size + min(CASE_STEPS) for size in lengths.values()):
        return spec
    usual = (sized(**{name: size + step for name, size in lengths.items()}) for step in CASE_STEPS)
    long = sized(**{name: max(longest, size + max(CASE_STEPS)) for name, size in lengths.items()})
    names = ("one", "several", LONG_TEXT)
    return compose(spec, *(case(name, more) for name, more in zip(names, (*usual, long), strict=True)))


def windows(model: Any) -> Iterator[int]:
    """The sliding windows of the models of transformers inside a module."""
    for module in inner_models(model):
        values = (getattr(module.config, name, None) for name in WINDOWS)
        yield from (value for value in values if type(value) is int)


DTYPES = KINDS[2:]
"""The dtypes that an input can have."""

COMPLEX = "pass torch.view_as_real(tensor), and join the parts in the module"


def sample_inputs(tensors: Iterable[SampleTensor], axes: Mapping[str, str], float_dtype: str) -> ExportSpec:
    """A spec of inputs with the dtypes and dynamic axes of the tensors of a sample. It has no generators.

    A tensor with `float_dtype`, the dtype of the weights, follows the dtype of the weights.

    InvalidSpec if a pattern does not fit its tensor.
    """
    return compose(*(_sample_input(tensor, axes.get(tensor.name), float_dtype) for tensor in tensors))


def generator_name(name: str) -> str:
    """The name of the generator of an input from a sample."""
    return f"like {name}"


def _sample_input(sample: SampleTensor, pattern: str | None, float_dtype: str) -> ExportSpec:
    name, shape = sample.name, tuple(sample.tensor.shape)
    words = ("batch_size", *"_" * (len(shape) - 1))[: len(shape)] if pattern is None else pattern.split()
    if len(words) != len(shape):
        raise InvalidSpec(
            f"{name!r} has {len(shape)} axes {list(shape)}, and its pattern {pattern!r} has {len(words)}; "
            "write one word for each axis"
        )
    axes = axis_map(" ".join(str(size) if word == "_" else word for word, size in zip(words, shape, strict=True)))
    path = () if sample.path == (name,) else sample.path
    kind = _kind(sample, float_dtype)
    return compose(takes(name, axes, generator_name(name), kind=kind, path=path), _dummy_sizes(axes, shape))


def _kind(sample: SampleTensor, float_dtype: str) -> Kind:
    """The kind of an input: `int` and `float` for the dtypes of ids and of the weights, which edits can change."""
    kind = tensor_kind(sample.tensor, {float_dtype} & {*DTYPES})
    if kind is None:
        dtype = str(sample.tensor.dtype).removeprefix("torch.")
        advice = COMPLEX if sample.tensor.is_complex() else "convert it to a dtype of these, and convert it back inside"
        raise InvalidSpec(f"{sample.name!r} is {dtype}, and inputs of ONNX are {', '.join(DTYPES)}; {advice}")
    return kind


def _dummy_sizes(axes: AxisMap, shape: tuple[int, ...]) -> ExportSpec:
    """The sizes of axes that are a name, or a multiple of a name. A size of 0 or 1 grows: torch.export would fix it."""
    sizes = {
        name: name_size
        for axis, size in zip(axes.axes, shape, strict=True)
        if axis.kind == "dynamic"
        for name, name_size in solve_for_name(axis.symbol, size).items()
    }
    return sized(**{symbol: max(size, SMALLEST_DYNAMIC_SIZE) for symbol, size in sizes.items()})
