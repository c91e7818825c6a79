"""Translations to ONNX of operators that reduce elements at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def scatter_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    import torch

    return {torch.ops.aten.scatter_reduce.two: _scatter_reduce}


def _scatter_reduce(
    tensor: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    include_self: bool = True,
) -> Any:
    """A tensor whose elements are reduced with those of a source at indices.

    ONNX has no mean: torch's table takes the last element in its place. Here it is a sum over a count.
    """
    from onnxscript import opset18 as op
    from onnxscript.function_libs.torch_lib.ops.core import aten_scatter_reduce as from_table

    if reduce != "mean":
        return from_table(tensor, dim, index, source, reduce, include_self)
    unit = op.CastLike(op.Constant(value_float=1.0), source)
    zeros = op.Expand(op.Sub(unit, unit), op.Shape(tensor))
    before, counted = (tensor, op.Add(zeros, unit)) if include_self else (zeros, zeros)
    total = op.ScatterElements(before, index, source, axis=dim, reduction="add")
    counts = op.ScatterElements(counted, index, op.Expand(unit, op.Shape(index)), axis=dim, reduction="add")
    count = counts if include_self else op.Max(counts, unit)
    is_float = (source.dtype or tensor.dtype).is_floating_point()
    mean = op.Div(total if is_float else op.Sub(total, op.Mod(total, count)), count)  # torch rounds whole numbers down
    return mean if include_self else op.Where(op.Equal(counts, op.Sub(unit, unit)), tensor, mean)
