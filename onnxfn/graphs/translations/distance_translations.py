"""Translations to ONNX of distances between rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset18 as op

from onnxfn.graphs.translations.ops import integers, scalar


def distance_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    return {
        torch.ops.aten._cdist_forward.default: _cdist,
        torch.ops.aten._pdist_forward.default: _pdist,
        torch.ops.aten.cdist.default: _cdist,
        torch.ops.aten.pdist.default: _pdist,
    }


def _cdist(left: Any, right: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:  # noqa: ARG001
    """The distance of each row of a matrix from each row of another: sums of differences, without a matrix product.

    A product loses the digits of small distances. torch takes one for more than 25 rows.
    """
    sizes = op.Abs(op.Sub(op.Unsqueeze(left, integers(-2)), op.Unsqueeze(right, integers(-3))))
    return _norm(sizes, p, left.dtype)


def _norm(sizes: Any, p: float, dtype: Any) -> Any:
    """The p-norm of the last axis of numbers that are not negative."""
    axes = integers(-1)
    if p == 0:
        return op.ReduceSum(op.Cast(op.Greater(sizes, scalar(0.0, dtype)), to=int(dtype)), axes, keepdims=0)
    if p == 1:
        return op.ReduceSum(sizes, axes, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(sizes, sizes), axes, keepdims=0))
    if p == float("inf"):
        return op.ReduceMax(sizes, axes, keepdims=0)
    return op.Pow(op.ReduceSum(op.Pow(sizes, scalar(p, dtype)), axes, keepdims=0), scalar(1 / p, dtype))


def _pdist(rows: Any, p: float = 2.0) -> Any:
    """The distances of each row of a matrix from the rows after it, as one vector."""
    distances = _cdist(rows, rows, p)
    is_later = op.Trilu(op.Expand(scalar(1), op.Shape(distances)), op.Constant(value_int=1))
    last = integers(-1)
    return op.Compress(op.Reshape(distances, last), op.Cast(op.Reshape(is_later, last), to=9), axis=0)
