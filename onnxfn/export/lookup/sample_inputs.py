"""The inputs of any module, from sample tensors and axis patterns, without a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxfn.specs.axes import AxisMap, axis_map, names
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import takes
from onnxfn.specs.records import Kind
from onnxfn.specs.reports import SMALLEST_DYNAMIC_SIZE
from onnxfn.specs.spec import ExportSpec


def sample_inputs(sample: Mapping[str, Any], axes: Mapping[str, str]) -> ExportSpec:
    """A spec of inputs like the tensors of a sample: their dtypes, the range of their values, their dynamic axes.

    UnknownName if `axes` has a pattern for no tensor of the sample, InvalidSpec if a pattern does not fit its tensor.
    """
    for name in axes:
        if name not in sample:
            raise unknown("tensor", name, sample, of="the sample")
    return compose(*(_sample_input(name, tensor, axes.get(name)) for name, tensor in sample.items()))


def _sample_input(name: str, tensor: Any, pattern: str | None) -> ExportSpec:
    shape = tuple(tensor.shape)
    words = ("batch_size", *"_" * (len(shape) - 1)) if pattern is None else pattern.split()
    if len(words) != len(shape):
        raise InvalidSpec(
            f"{name!r} has {len(shape)} axes {list(shape)}, and its pattern {pattern!r} has {len(words)}; "
            "write one word for each axis"
        )
    axes = axis_map(" ".join(str(size) if word == "_" else word for word, size in zip(words, shape, strict=True)))
    kind: Kind = "float" if tensor.is_floating_point() else "bool" if str(tensor.dtype) == "torch.bool" else "int"
    generator = f"like {name}"
    return compose(
        takes(name, axes, generator, kind=kind), _values_like(generator, tensor, kind), _dummy_sizes(axes, shape)
    )


def _values_like(generator: str, tensor: Any, kind: Kind) -> ExportSpec:
    """A generator of values between the minimum and the maximum of a tensor."""
    low, high = (tensor.min().item(), tensor.max().item()) if tensor.numel() else (0, 1)
    if kind == "float":
        return generates(generator, "uniform", low=float(low), high=float(high))
    return generates(generator, "integers", low=int(low), high=max(int(high), int(low)) + 1)


def _dummy_sizes(axes: AxisMap, shape: tuple[int, ...]) -> ExportSpec:
    """The sizes of axes that are a plain symbol. A size of 0 or 1 grows: torch.export would fix it."""
    sizes = {
        axis.symbol: size
        for axis, size in zip(axes.axes, shape, strict=True)
        if names(AxisMap((axis,))) == (axis.symbol,)
    }
    return sized(**{symbol: max(size, SMALLEST_DYNAMIC_SIZE) for symbol, size in sizes.items()})
