"""A spec from sample tensors: what any module takes, without a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxfn.specs.axes import AxisMap, axis_map, names
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import takes
from onnxfn.specs.records import Kind
from onnxfn.specs.spec import ExportSpec

SMALLEST = 2
"""torch takes sizes 0 and 1 apart, so an axis that moves is traced longer."""


def sample_inputs(sample: Mapping[str, Any], axes: Mapping[str, str]) -> ExportSpec:
    """A spec of inputs like these tensors: their types, the range of their values, the axes that are said to move.

    InvalidSpec when a pattern does not fit its tensor, UnknownName when it is for none of them.
    """
    for name in axes:
        if name not in sample:
            raise unknown("tensor", name, sample, of="the sample")
    return compose(*(_sample_input(name, tensor, axes.get(name)) for name, tensor in sample.items()))


def _sample_input(name: str, tensor: Any, pattern: str | None) -> ExportSpec:
    shape = tuple(tensor.shape)
    words = ("batch_size", *"_" * (len(shape) - 1)) if pattern is None else pattern.split()
    if len(words) != len(shape):
        raise InvalidSpec(f"{name!r} has {len(shape)} axes {list(shape)} and {pattern!r} says {len(words)}")
    told = axis_map(" ".join(str(size) if word == "_" else word for word, size in zip(words, shape, strict=True)))
    kind: Kind = "float" if tensor.is_floating_point() else "bool" if str(tensor.dtype) == "torch.bool" else "int"
    return compose(
        takes(name, told, f"like {name}", kind=kind), _values_like(f"like {name}", tensor, kind), _sizes(told, shape)
    )


def _values_like(generator: str, tensor: Any, kind: Kind) -> ExportSpec:
    """Dummies between the least and the greatest number of a tensor."""
    low, high = (tensor.min().item(), tensor.max().item()) if tensor.numel() else (0, 1)
    if kind == "float":
        return generates(generator, "uniform", low=float(low), high=float(high))
    return generates(generator, "integers", low=int(low), high=max(int(high), int(low)) + 1)


def _sizes(axes: AxisMap, shape: tuple[int, ...]) -> ExportSpec:
    plain = {
        one.symbol: size for one, size in zip(axes.axes, shape, strict=True) if names(AxisMap((one,))) == (one.symbol,)
    }
    return sized(**{name: max(size, SMALLEST) for name, size in plain.items()})
