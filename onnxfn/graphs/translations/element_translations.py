"""Translations to ONNX of operators on single elements of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset18 as op

from onnxfn.graphs.translations.ops import integers


def element_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    return {
        torch.ops.aten.copysign.Tensor: _copysign,
        torch.ops.aten.hypot.default: _hypot,
        torch.ops.aten.put.default: _put,
    }


def _hypot(left: Any, right: Any) -> Any:
    """The length of a vector of two coordinates; the smaller one is divided by the larger, so no square is infinite."""
    sizes = op.Abs(left), op.Abs(right)
    larger, smaller = op.Max(*sizes), op.Min(*sizes)
    unit = op.CastLike(op.Constant(value_float=1.0), larger)
    ratio = op.Div(smaller, op.Where(op.Equal(larger, op.Sub(unit, unit)), unit, larger))
    return op.Mul(larger, op.Sqrt(op.Add(unit, op.Mul(ratio, ratio))))


def _copysign(tensor: Any, other: Any) -> Any:
    """The numbers of a tensor with the signs of another; -0.0 is negative."""
    size = op.Abs(tensor)
    zero, unit = (op.CastLike(op.Constant(value_float=number), other) for number in (0.0, 1.0))
    # 1 over -0.0 is minus infinity
    is_negative = op.Less(op.Where(op.Equal(other, zero), op.Div(unit, other), other), zero)
    return op.Where(is_negative, op.Neg(size), size)


def _put(tensor: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A tensor with other elements at indices into all its elements; torch's table lacks it."""
    last = integers(-1)
    flat, places, values = (op.Reshape(each, last) for each in (tensor, index, source))
    positive = op.Where(op.Less(places, op.Constant(value_int=0)), op.Add(places, op.Size(tensor)), places)
    changed = op.ScatterElements(flat, positive, values, axis=0, reduction="add" if accumulate else "none")
    return op.Reshape(changed, op.Shape(tensor))
