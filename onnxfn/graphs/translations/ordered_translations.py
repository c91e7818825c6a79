"""Translations to ONNX of operators that order numbers: medians, k-th values, sorted numbers, running extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnx_ir
import torch
from onnx_ir import DataType
from onnxscript import opset18 as op

from onnxfn.graphs.translations.ops import cast, integers, scalar, size, typed
from onnxfn.graphs.translations.running import running


def ordered_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    aten = torch.ops.aten
    return {
        aten.bucketize.Tensor: _bucketize,
        aten.cummax.default: partial(_running_extreme, "GreaterOrEqual"),
        aten.cummin.default: partial(_running_extreme, "LessOrEqual"),
        aten.cumprod.default: _cumprod,
        aten.kthvalue.default: _kthvalue,
        aten.logcumsumexp.default: _logcumsumexp,
        aten.median.default: lambda tensor: _median(_flat(tensor), 0)[0],
        aten.median.dim: _median,
        aten.nanmedian.default: lambda tensor: _nanmedian(_flat(tensor), 0)[0],
        aten.nanmedian.dim: _nanmedian,
        aten.searchsorted.Tensor: _searchsorted,
    }


def _median(tensor: Any, dim: int, keepdim: bool = False) -> Sequence[Any]:
    """The lower median along an axis, and its index; NaN where an element is NaN, and the index of the first NaN."""
    tensor, axis, result_axis = _along(tensor, dim)
    middle = op.Div(op.Sub(size(tensor, axis), integers(1)), integers(2))
    values, indices = _at_rank(tensor, axis, middle)
    if tensor.dtype.is_floating_point():
        is_nan = op.Cast(op.IsNaN(tensor), to=1)
        has_nan = op.Cast(op.ReduceMax(is_nan, integers(axis), keepdims=1), to=9)
        indices = op.Where(has_nan, op.ArgMax(is_nan, axis=axis, keepdims=1), indices)
        values = op.GatherElements(tensor, indices, axis=axis)
    return _reduced((values, indices), result_axis, keepdim=keepdim)


def _nanmedian(tensor: Any, dim: int, keepdim: bool = False) -> Sequence[Any]:
    """The lower median of the elements along an axis that are no NaN, and its index; NaN where all are NaN."""
    tensor, axis, result_axis = _along(tensor, dim)
    if not tensor.dtype.is_floating_point():
        return _median(tensor, dim, keepdim)
    numbers = op.ReduceSum(op.Cast(op.Not(op.IsNaN(tensor)), to=7), integers(axis), keepdims=1)
    middle = op.Div(op.Max(op.Sub(numbers, integers(1)), integers(0)), integers(2))
    return _reduced(_at_rank(tensor, axis, middle), result_axis, keepdim=keepdim)


def _kthvalue(tensor: Any, k: Any, dim: int = -1, keepdim: bool = False) -> Sequence[Any]:
    """The k-th smallest element along an axis, and its index; NaN is the largest number."""
    tensor, axis, result_axis = _along(tensor, dim)
    rank = integers(k - 1) if isinstance(k, int) else op.Sub(op.Reshape(k, integers(1)), integers(1))
    return _reduced(_at_rank(tensor, axis, rank), result_axis, keepdim=keepdim)


def _at_rank(tensor: Any, axis: int, rank: Any) -> tuple[Any, Any]:
    """The element of each rank along an axis, and its index. NaN has the last ranks. The axis has size 1 afterwards.

    The rank is a vector of one number, or one number for each slice.
    """
    wide = _sortable(tensor)
    _, order = op.TopK(wide, size(tensor, axis), axis=axis, largest=0, sorted=1)
    first = op.Slice(order, integers(0), integers(1), integers(axis))
    indices = op.GatherElements(order, op.Add(op.Mul(first, integers(0)), rank), axis=axis)
    return op.GatherElements(tensor, indices, axis=axis), indices


def _sortable(tensor: Any) -> Any:
    """A tensor of the same order in a dtype that ONNX Runtime sorts, with infinity in place of NaN."""
    if not tensor.dtype.is_floating_point():
        return op.Cast(tensor, to=DataType.INT64)
    infinity = scalar(float("inf"), tensor.dtype)
    numbers = op.Where(op.IsNaN(tensor), infinity, tensor)
    is_sorted = tensor.dtype in (DataType.FLOAT, DataType.DOUBLE)
    return numbers if is_sorted else op.Cast(numbers, to=DataType.FLOAT)


def _searchsorted(
    sorted_sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many elements of each sorted row are less than each value, or not greater for the right side.

    Each value is compared with each element. NaN is greater than any number.
    """
    ordered = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    is_row = len(sorted_sequence.shape) == 1  # one row for values of any rank
    elements = ordered if is_row else op.Unsqueeze(ordered, integers(-2))
    each = op.Unsqueeze(values, integers(-1))
    follows = op.Greater if right or side == "right" else op.GreaterOrEqual
    counts = op.ReduceSum(op.Cast(op.Not(follows(elements, each)), to=7), integers(-1), keepdims=0)
    return op.Cast(counts, to=6) if out_int32 else counts


def _bucketize(values: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    """The place of each value among sorted boundaries; see `_searchsorted`."""
    return _searchsorted(boundaries, values, out_int32, right)


def _running_extreme(comparison: str, tensor: Any, dim: int) -> Sequence[Any]:
    """The extreme of the elements up to each along an axis, and its index: the last of equal ones. NaN stays NaN."""
    if not len(tensor.shape):
        return op.Identity(tensor), op.Constant(value_int=0)
    axis = dim % len(tensor.shape)

    def step(states: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        (extreme, index), (element, position) = states, elements
        replaces = getattr(op, comparison)(element, extreme)
        if tensor.dtype.is_floating_point():
            replaces = op.Or(op.IsNaN(element), op.And(replaces, op.Not(op.IsNaN(extreme))))
        return op.Where(replaces, element, extreme), op.Where(replaces, position, index)

    ones = op.Expand(integers(1), op.Shape(tensor))
    places = op.Sub(op.CumSum(ones, op.Constant(value_int=axis)), integers(1))
    typed(places, DataType.INT64, tensor.shape)
    return running(step, _first(axis, tensor, places), (tensor, places), axis, f"{tensor.name}_{comparison}")


def _cumprod(tensor: Any, dim: int, dtype: int = -1) -> Any:
    """The product of the elements up to each along an axis; torch decomposes it."""
    default = tensor.dtype if tensor.dtype.is_floating_point() else DataType.INT64
    factors = cast(tensor, default if dtype == -1 else DataType(dtype))
    if not len(tensor.shape):
        return op.Identity(factors)
    axis = dim % len(tensor.shape)
    unit = scalar(1, factors.dtype)
    ones = typed(op.Expand(unit, op.Shape(*_first(axis, factors))), factors.dtype)
    return running(
        lambda states, elements: [op.Mul(*states, *elements)], [ones], [factors], axis, f"{tensor.name}_product"
    )[0]


def _logcumsumexp(tensor: Any, dim: int) -> Any:
    """The logarithm of the sum of the exponentials of the elements up to each; torch's table loses the small ones."""

    def step(states: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        larger, smaller = op.Max(*states, *elements), op.Min(*states, *elements)
        zero = scalar(0.0, tensor.dtype)
        distance = op.Where(op.Equal(larger, smaller), zero, op.Sub(smaller, larger))  # both may be infinite
        return [op.Add(larger, op.Softplus(distance))]

    if not len(tensor.shape):
        return op.Identity(tensor)
    axis = dim % len(tensor.shape)
    lowest = scalar(float("-inf"), tensor.dtype)
    start = typed(op.Expand(lowest, op.Shape(*_first(axis, tensor))), tensor.dtype)
    return running(step, [start], [tensor], axis, f"{tensor.name}_logsum")[0]


def _first(axis: int, *tensors: Any) -> list[Any]:
    """The first element of each tensor along an axis."""
    return [typed(op.Gather(tensor, op.Constant(value_int=0), axis=axis), tensor.dtype) for tensor in tensors]


def _along(tensor: Any, dim: int) -> tuple[Any, int, int | None]:
    """A tensor with at least one axis, the axis, and the axis of the result: None if the tensor has none."""
    rank = len(tensor.shape)
    if rank:
        return tensor, dim % rank, dim % rank
    return typed(op.Reshape(tensor, integers(1)), tensor.dtype), 0, None


def _flat(tensor: Any) -> Any:
    """All elements of a tensor along one axis."""
    return typed(op.Reshape(tensor, integers(-1)), tensor.dtype, onnx_ir.Shape([None]))


def _reduced(tensors: Sequence[Any], axis: int | None, *, keepdim: bool) -> Sequence[Any]:
    """Results without the axis of size 1, or with it; a result of a number has no axis."""
    if axis is not None and keepdim:
        return tuple(tensors)
    return tuple(op.Squeeze(tensor, integers(axis or 0)) for tensor in tensors)
