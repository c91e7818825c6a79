"""Translations of operators on elements, order, distances and complex numbers, which torch's own table lacks."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnx_ir import DataType
from onnxscript import evaluator
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import core, fft


def integers(*numbers: int) -> Any:
    """A constant vector of int64."""
    return op.Constant(value_ints=list(numbers))


def scalar(number: float, dtype: Any = DataType.INT64) -> Any:
    """A constant without axes."""
    return op.Constant(value=onnx_ir.tensor(number, dtype=dtype))


def size(tensor: Any, axis: int) -> Any:
    """The size of an axis, as a vector of one number."""
    return op.Shape(tensor, start=axis, end=axis + 1 or None)


def counted(size: Any) -> Any:
    """The numbers from 0 up to a size, which is a vector of one number."""
    return op.Range(scalar(0), op.Squeeze(size, integers(0)), scalar(1))


def cast(tensor: Any, dtype: Any) -> Any:
    """A tensor in another dtype, which the translations of torch read, as they read the shape."""
    return typed(op.Cast(tensor, to=int(dtype)), dtype, tensor.shape)


def typed(value: Any, dtype: Any, shape: Any = None) -> Any:
    """A value with a known dtype, and with a shape if one is passed."""
    value.type = onnx_ir.TensorType(dtype)
    if shape is not None:
        value.shape = shape
    return value


def tensor_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    aten = torch.ops.aten
    return {
        aten._cdist_forward.default: _cdist,
        aten._pdist_forward.default: _pdist,
        aten.atan2.default: _atan2,
        aten.bucketize.Tensor: lambda values, boundaries, **named: _searchsorted(boundaries, values, **named),
        aten.copysign.Tensor: _copysign,
        aten.cummax.default: partial(_running_extreme, "GreaterOrEqual"),
        aten.cummin.default: partial(_running_extreme, "LessOrEqual"),
        aten.cumprod.default: _cumprod,
        **dict.fromkeys((aten.div.Tensor_mode, aten.div.Scalar_mode), _rounded_quotient),
        aten.floor_divide.default: partial(_rounded_quotient, rounding_mode="floor"),
        aten.hypot.default: _hypot,
        aten.kthvalue.default: _kthvalue,
        aten.logaddexp.default: _logaddexp,
        aten.logcumsumexp.default: partial(_folded, _logaddexp, float("-inf"), "logsum"),  # torch's loses small ones
        aten.masked_select.default: _masked_select,
        aten.median.default: lambda tensor: _median(_flat(tensor), 0)[0],
        aten.median.dim: _median,
        aten.nanmedian.default: lambda tensor: _median(_flat(tensor), 0, without_nan=True)[0],
        aten.nanmedian.dim: partial(_median, without_nan=True),
        aten.put.default: _put,
        **dict.fromkeys((aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor), _remainder),
        aten.scatter_reduce.two: _scatter_reduce,
        aten.searchsorted.Tensor: _searchsorted,
    }


def _hypot(left: Any, right: Any) -> Any:
    """The length of a vector of two coordinates; the smaller one is divided by the larger, so no square is infinite."""
    sizes = op.Abs(left), op.Abs(right)
    larger, unit = op.Max(*sizes), op.CastLike(op.Constant(value_float=1.0), left)
    ratio = op.Where(op.Equal(*sizes), unit, op.Div(op.Min(*sizes), larger))  # both may be zero, or infinite
    return op.Mul(larger, op.Sqrt(op.Add(unit, op.Mul(ratio, ratio))))


def _copysign(tensor: Any, other: Any) -> Any:
    """The numbers of a tensor with the signs of another."""
    signs = (op.CastLike(op.Constant(value_float=sign), tensor) for sign in (-1.0, 1.0))
    return op.Mul(op.Abs(tensor), op.Where(_is_negative(other), *signs))  # a Where of ONNX Runtime makes 0.0 of -0.0


def _is_negative(numbers: Any) -> Any:
    """Whether each number is negative; -0.0 is, and 1 over it is minus infinity."""
    return op.Less(op.Min(numbers, op.Reciprocal(numbers)), op.CastLike(op.Constant(value_float=0.0), numbers))


def _atan2(y: Any, x: Any) -> Any:
    """The angle of a point; torch's table loses the signs of zeros, and takes the quotient of two infinities for 0."""
    sizes = height, width = op.Abs(y), op.Abs(x)
    steep = op.Atan(op.Where(op.Equal(*sizes), op.Sign(height), op.Div(height, width)))
    turned = op.Sub(op.CastLike(op.Constant(value=onnx_ir.tensor(math.pi, dtype=DataType.DOUBLE)), steep), steep)
    return _copysign(op.Where(_is_negative(x), turned, steep), y)


def _rounded_quotient(dividend: Any, divisor: Any, rounding_mode: str | None = None) -> Any:
    """A quotient, rounded down as in Python, or towards zero; torch's table divides whole numbers in float32."""
    dividend, divisor, dtype = _operands(dividend, divisor)
    if rounding_mode is not None and dtype in (DataType.INT32, DataType.INT64):
        whole = op.Sub(dividend, op.Mod(dividend, divisor)) if rounding_mode == "floor" else dividend
        return op.Div(whole, divisor)
    mantissas = _mantissas(divisor)
    if rounding_mode != "floor" or not dtype.is_floating_point() or (mantissas == 1 / 2).all():
        return core.aten_div_mode(dividend, divisor, rounding_mode)
    # 1 / 0.1 is 10 in float32, but its 0.1 fits only 9 times into 1
    rest, has_other_sign = _rest(dividend, divisor, dtype)
    whole = op.Sub(op.Round(op.Div(op.Sub(dividend, rest), divisor)), op.Cast(has_other_sign, to=int(dtype)))
    if mantissas.all():
        return whole
    return op.Where(op.Equal(divisor, scalar(0.0, dtype)), op.Div(dividend, divisor), whole)


def _remainder(dividend: Any, divisor: Any) -> Any:
    """What a division that is rounded down leaves; torch's table multiplies a rounded quotient."""
    dividend, divisor, dtype = _operands(dividend, divisor)
    if not dtype.is_floating_point() or (_mantissas(divisor) == 1 / 2).all():
        return core.aten_remainder(dividend, divisor)
    rest, has_other_sign = _rest(dividend, divisor, dtype)
    return op.Where(has_other_sign, op.Add(rest, divisor), rest)


def _operands(left: Any, right: Any) -> tuple[Any, Any, Any]:
    """Two operands, of which one may be a Python number, as tensors, and their dtype."""
    dtype = next(each.dtype for each in (left, right) if hasattr(each, "dtype"))
    return *(each if hasattr(each, "dtype") else typed(scalar(each, dtype), dtype) for each in (left, right)), dtype


def _rest(dividend: Any, divisor: Any, dtype: Any) -> tuple[Any, Any]:
    """What a division that is rounded towards zero leaves, and whether it is not 0 and has not the divisor's sign."""
    rest = op.Mod(dividend, divisor, fmod=1)
    return rest, op.Less(op.Mul(op.Sign(rest), op.Sign(divisor)), scalar(0.0, dtype))


def _mantissas(divisor: Any) -> Any:
    """Those of a constant, 1/2 for a power of two, by which a division is exact; a zero for what is no constant."""
    tensor = onnx_ir.convenience.get_const_tensor(divisor)
    return np.zeros(1) if tensor is None else np.frexp(abs(tensor.numpy()))[0]


def _masked_select(tensor: Any, mask: Any) -> Any:
    return op.Compress(op.Expand(tensor, op.Shape(mask)), op.Reshape(op.Expand(mask, op.Shape(tensor)), integers(-1)))


def _put(tensor: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A tensor with other elements at indices into all its elements; torch's table lacks it."""
    flat, places, values = (op.Reshape(each, integers(-1)) for each in (tensor, index, source))
    positive = op.Where(op.Less(places, op.Constant(value_int=0)), op.Add(places, op.Size(tensor)), places)
    changed = op.ScatterElements(flat, positive, values, axis=0, reduction="add" if accumulate else "none")
    return op.Reshape(changed, op.Shape(tensor))


def _scatter_reduce(tensor: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    """A tensor with its elements reduced with elements of a source at indices."""
    if reduce != "mean":
        return core.aten_scatter_reduce(tensor, dim, index, source, reduce, include_self)
    # ONNX has no mean: torch's table takes the last element in its place. Here it is a sum over a count.
    unit = op.CastLike(op.Constant(value_float=1.0), source)
    zeros = op.Expand(op.Sub(unit, unit), op.Shape(tensor))
    before, counted = (tensor, op.Add(zeros, unit)) if include_self else (zeros, zeros)
    total = op.ScatterElements(before, index, source, axis=dim, reduction="add")
    counts = op.ScatterElements(counted, index, op.Expand(unit, op.Shape(index)), axis=dim, reduction="add")
    count = counts if include_self else op.Max(counts, unit)
    is_float = (source.dtype or tensor.dtype).is_floating_point()
    mean = op.Div(total if is_float else op.Sub(total, op.Mod(total, count)), count)  # torch rounds whole numbers down
    return mean if include_self else op.Where(op.Equal(counts, op.Sub(unit, unit)), tensor, mean)


def _cdist(left: Any, right: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:  # noqa: ARG001
    """The distance of each row of a matrix from each row of another: sums of differences, without a matrix product."""
    # A product loses the digits of small distances. torch takes one for more than 25 rows.
    return _norm(op.Abs(op.Sub(op.Unsqueeze(left, integers(-2)), op.Unsqueeze(right, integers(-3)))), p, left.dtype)


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


MOVING = (
    *("alias.default", "contiguous.default", "copy.default", "flatten.using_ints", "index_select.default"),
    *("repeat_interleave.self_int", "select.int", "select_scatter.default", "slice_scatter.default", "split.Tensor"),
    *("split_with_sizes.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "sym_size.int", "unbind.int"),
    *("unflatten.int", "unsqueeze.default"),
)
"""Operators that move elements along axes, or read their size: a complex tensor needs no more than other axes."""


def complex_translations(real: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values of complex tensors.

    `real`: those of real tensors, for operators that torch's table has for real tensors alone.
    """
    aten = torch.ops.aten
    moving = {each: each._schema.name.replace("::", "_") for each in attrgetter(*MOVING)(aten)}
    return {
        **{each: _beside_parts(each, real.get(each) or getattr(core, name)) for each, name in moving.items()},
        aten._fft_c2r.default: _real_signal,
        torch.ops.prims.convert_element_type.default: _converted,
        aten._to_copy.default: lambda tensor, dtype=None, **_: _converted(tensor, dtype),
        aten.angle.default: lambda tensor: _atan2(*(op.Gather(tensor, scalar(part), axis=-1) for part in (1, 0))),
        aten.mul.Tensor: _product,
        aten.index.Tensor: core.aten_index,
        aten.gather.default: _gather,
        aten.expand.default: lambda tensor, size, **_: core.aten_expand(tensor, [*size, 2]),
        aten.reshape.default: lambda tensor, shape: core.aten_reshape(tensor, [*shape, 2]),
        aten.repeat.default: lambda tensor, repeats: core.aten_repeat(tensor, [*repeats, 1]),
        aten.new_full.default: lambda tensor, size, value, **_: core.aten_expand(
            op.CastLike(op.Constant(value_floats=[value.real, value.imag]), tensor), [*size, 2]
        ),
        aten.constant_pad_nd.default: _padded,
    }


def _beside_parts(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a real tensor and axes, for complex tensors: axes that count from the end have one more after."""
    every = operator._schema.arguments

    def translated(*arguments: Any) -> Any:
        values = [*arguments, *(each.default_value for each in every[len(arguments) :])]
        return function(
            *(_axis(value) if "dim" in each.name else value for each, value in zip(every, values, strict=True))
        )

    return translated


def _axis(dim: Any) -> Any:
    """An axis, or several, of a complex tensor in ONNX; None stays."""
    if isinstance(dim, Sequence):
        return [_axis(each) for each in dim]
    return dim - 1 if dim is not None and dim < 0 else dim


def _converted(tensor: Any, dtype: int | None) -> Any:
    """A complex tensor in another dtype; a real one has the real part alone."""
    of_parts = {None: tensor.dtype, int(DataType.COMPLEX64): DataType.FLOAT, int(DataType.COMPLEX128): DataType.DOUBLE}
    if dtype in of_parts:
        return op.Cast(tensor, to=of_parts[dtype])
    return op.Cast(op.Gather(tensor, scalar(0), axis=-1), to=dtype)


def _gather(tensor: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:  # noqa: ARG001
    """The elements of a complex tensor at indices along an axis: both parts of each."""
    of_both = op.Expand(op.Unsqueeze(index, integers(-1)), op.Concat(op.Shape(index), integers(2), axis=0))
    return op.GatherElements(tensor, of_both, axis=_axis(dim))


def _real_signal(spectrum: Any, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Any:
    """The real signal of half a spectrum; torch's table has an inverse DFT of one side, which ONNX Runtime lacks."""
    axis = dim[-1]
    conjugate = op.Mul(spectrum, op.Constant(value_floats=[1.0, -1.0]))
    is_known = isinstance(last_dim_size, int)
    length = integers(last_dim_size) if is_known else op.Reshape(last_dim_size, integers(-1))
    last = op.Div(op.Sub(length, integers(1)), integers(2))
    # The other half is the mirrored conjugate of the first.
    spectrum = op.Concat(spectrum, op.Slice(conjugate, last, integers(0), integers(axis), integers(-1)), axis=axis)
    signal = fft.aten__fft_c2c(spectrum, dim, normalization, False)
    return op.Squeeze(op.Slice(signal, integers(0), integers(1), integers(-1)), integers(-1))


def _padded(tensor: Any, pad: Sequence[Any], value: complex = 0) -> Any:
    """A complex tensor with zeros at the ends of its last axes."""
    if value:
        raise NotImplementedError(f"a complex tensor is padded with zeros alone, not with {value}")
    return core.aten_constant_pad_nd(tensor, [0, 0, *pad])


def _product(left: Any, right: Any) -> Any:
    """The product of two complex tensors, or of one and a real number, which torch's table takes for complex."""
    if _is_real_number(right):
        return op.Mul(left, op.CastLike(right, left))
    return op.Mul(op.CastLike(left, right), right) if _is_real_number(left) else core.aten_mul_complex(left, right)


def _is_real_number(value: Any) -> bool:
    """Whether a value cannot be a complex tensor, because it lacks the axis of real and imaginary part."""
    shape = getattr(value, "shape", ())
    return not isinstance(value, complex) and shape is not None and len(shape) == 0


def _median(tensor: Any, dim: int, keepdim: bool = False, *, without_nan: bool = False) -> Sequence[Any]:
    """The lower median along an axis, and its index; NaN where an element is NaN, and the index of the first NaN.

    `without_nan`: that of the other elements; NaN where all are NaN.
    """
    tensor, axis, result_axis = _along(tensor, dim)
    count, is_float = size(tensor, axis), tensor.dtype.is_floating_point()
    is_nan = op.Cast(op.IsNaN(tensor), to=DataType.INT64) if is_float else None
    if is_float and without_nan:
        count = op.Max(op.Sub(count, op.ReduceSum(is_nan, integers(axis), keepdims=1)), integers(1))
    values, indices = _at_rank(tensor, axis, op.Div(op.Sub(count, integers(1)), integers(2)))
    if is_float and not without_nan:
        has_nan = op.Cast(op.ReduceMax(is_nan, integers(axis), keepdims=1), to=DataType.BOOL)
        indices = op.Where(has_nan, op.ArgMax(is_nan, axis=axis, keepdims=1), indices)
        values = op.GatherElements(tensor, indices, axis=axis)
    return _reduced((values, indices), result_axis, keepdim=keepdim)


def _kthvalue(tensor: Any, k: Any, dim: int = -1, keepdim: bool = False) -> Sequence[Any]:
    """The k-th smallest element along an axis, and its index; NaN is the largest number."""
    tensor, axis, result_axis = _along(tensor, dim)
    rank = integers(k - 1) if isinstance(k, int) else op.Sub(op.Reshape(k, integers(1)), integers(1))
    return _reduced(_at_rank(tensor, axis, rank), result_axis, keepdim=keepdim)


def _at_rank(tensor: Any, axis: int, rank: Any) -> tuple[Any, Any]:
    """The element of each rank along an axis, and its index. NaN has the last ranks. The axis has size 1 afterwards."""
    _, order = op.TopK(_sortable(tensor), size(tensor, axis), axis=axis, largest=0, sorted=1)
    first = op.Slice(order, integers(0), integers(1), integers(axis))
    # The rank is a vector of one number, or one number for each slice.
    indices = op.GatherElements(order, op.Add(op.Mul(first, integers(0)), rank), axis=axis)
    return op.GatherElements(tensor, indices, axis=axis), indices


def _sortable(tensor: Any) -> Any:
    """A tensor of the same order in a dtype that ONNX Runtime sorts, with infinity in place of NaN."""
    if not tensor.dtype.is_floating_point():
        return op.Cast(tensor, to=DataType.INT64)
    numbers = op.Where(op.IsNaN(tensor), scalar(float("inf"), tensor.dtype), tensor)
    return numbers if tensor.dtype in (DataType.FLOAT, DataType.DOUBLE) else op.Cast(numbers, to=DataType.FLOAT)


def _searchsorted(
    sorted_sequence: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: Any = None,
    sorter: Any = None,
) -> Any:
    """The number of elements of each sorted row that are less than each value, or not greater for the right side."""
    ordered = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    is_row = len(sorted_sequence.shape) == 1  # one row for values of any rank
    elements = ordered if is_row else op.Unsqueeze(ordered, integers(-2))
    each = op.Unsqueeze(values, integers(-1))
    follows = op.Greater if right or side == "right" else op.GreaterOrEqual
    # Each value is compared with each element. NaN is greater than any number.
    counts = op.ReduceSum(op.Cast(op.Not(follows(elements, each)), to=7), integers(-1), keepdims=0)
    return op.Cast(counts, to=6) if out_int32 else counts


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
    return _folded(op.Mul, 1, "product", cast(tensor, default if dtype == -1 else DataType(dtype)), dim)


def _logaddexp(left: Any, right: Any) -> Any:
    """The logarithm of the sum of two exponentials, none of which is computed: they may be infinite."""
    larger, zero = op.Max(left, right), op.CastLike(op.Constant(value_float=0.0), left)
    distance = op.Where(op.Equal(left, right), zero, op.Sub(op.Min(left, right), larger))  # both may be infinite
    return op.Add(larger, op.Softplus(distance))


def _folded(step: Callable[[Any, Any], Any], start: float, name: str, tensor: Any, dim: int) -> Any:
    """The states after each element along an axis; `step` computes the next from a state and an element."""
    if not len(tensor.shape):
        return op.Identity(tensor)
    axis = dim % len(tensor.shape)
    first = typed(op.Expand(scalar(start, tensor.dtype), op.Shape(*_first(axis, tensor))), tensor.dtype)
    return running(
        lambda states, elements: [step(*states, *elements)], [first], [tensor], axis, f"{tensor.name}_{name}"
    )[0]


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


Step = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From the states, and the elements of one index along the axis, to the next states."""


def running(step: Step, states: Sequence[Any], tensors: Sequence[Any], axis: int, prefix: str) -> tuple[Any, ...]:
    """The states after each index along an axis of some tensors, one tensor of their shape for each state.

    `step` computes the next states on onnxscript values. It may read no other value. A first state has the shape of the
    tensors without the axis; all tensors have a dtype and the same shape. `prefix` starts the names of the values in
    the step, which must be no names of values around it.
    """
    shape = [size for index, size in enumerate(tensors[0].shape) if index != axis]
    state_inputs, elements = (
        [onnx_ir.val(f"{prefix}_{kind}_{index}", value.dtype, shape) for index, value in enumerate(values)]
        for kind, values in (("state", states), ("element", tensors))
    )
    recorder: Any = evaluator.default()
    body = _body(step, state_inputs, elements, prefix)
    axes = {"scan_input_axes": [axis] * len(tensors), "scan_output_axes": [axis] * len(states)}
    attributes = {"body": body, "num_scan_inputs": len(tensors), **axes}
    scan = onnx_ir.node("Scan", [*states, *tensors], attributes, num_outputs=2 * len(states))
    recorder.nodes.append(scan)
    return tuple(scan.outputs[len(states) :])


def _body(step: Step, states: Sequence[Any], elements: Sequence[Any], prefix: str) -> Any:
    """The graph of one step: the next states, and these again as the outputs of this index."""
    recorder: Any = evaluator.default()
    start = len(recorder.nodes)
    next_states = tuple(step(states, elements))
    outputs = (*next_states, *map(op.Identity, next_states))
    nodes = recorder.nodes[start:]
    del recorder.nodes[start:]
    for number, value in enumerate(value for node in nodes for value in node.outputs):
        value.name = f"{prefix}_{number}"
    for output, state in zip(outputs, (*states, *states), strict=True):
        output.shape, output.type = state.shape, state.type
    return onnx_ir.Graph((*states, *elements), outputs, nodes=nodes, name=f"{prefix}_step")
