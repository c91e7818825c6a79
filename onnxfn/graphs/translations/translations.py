"""Translations to ONNX of torch operators that torch's own table lacks or translates wrongly."""

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnx_ir import DataType
from onnxscript import opset18 as op
from onnxscript import opset20
from onnxscript.function_libs.torch_lib.ops import core, nn
from onnxscript.values import Opset

from onnxfn.graphs.passes.simplify import SINCE
from onnxfn.graphs.translations.tensor_translations import cast, counted, integers, scalar, size, typed
from onnxfn.specs.errors import CaptureFailed

FORMULAS = ("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Neg", "Min", "Max")  # of real numbers, without attributes
# Operators whose result may have the minus infinity of an input. A triangle of it, Trilu, leaves each query a key.
MASKED = "Add Cast CastLike Concat Expand Gather Identity Min Reshape ScatterND Slice Squeeze Transpose Unsqueeze Where"
LONGEST = 2**20  # the most pixels of a dynamic axis for which the rules of two operators are compared
DIGITS = 8  # characters of a constant that a model has written, such as 0.044715
WEIGHTS = ("p_", "b_")  # names of parameters and buffers in a trace, whose inputs are `tensors_1`, ...


def translations(opset: int) -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values, for a graph of this opset."""
    aten = torch.ops.aten
    later = {"Gelu": {aten.gelu.default: opset20.Gelu}, "TensorScatter": {aten.slice_scatter.default: _slice_scatter}}
    return {
        operator.floordiv: _floor_quotient,
        math.ceil: partial(_whole, op.Ceil),
        math.floor: partial(_whole, op.Floor),
        math.trunc: partial(_whole, op.Identity),
        aten.addmm.default: _addmm,
        **dict.fromkeys((aten.arange.default, aten.arange.start, aten.arange.start_step), _arange),
        aten.adaptive_avg_pool1d.default: partial(_adaptive_avg_pool, 1),
        aten.adaptive_avg_pool2d.default: partial(_adaptive_avg_pool, 2),
        aten.batch_norm.default: _batch_norm,
        **{getattr(aten, f"conv{axes}d").padding: partial(_convolution, axes) for axes in (1, 2, 3)},
        aten.copy.default: _copy,
        aten.flatten.using_ints: _flatten,
        aten.gelu.default: _gelu,
        **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor), partial(_at_indices, core.aten_index)),
        **dict.fromkeys(
            (aten.index_put.default, aten._unsafe_index_put.default), partial(_at_indices, core.aten_index_put)
        ),
        aten.linear.default: _linear,
        # torch's table takes the logarithm of a number that is 0 for -20 in ONNX Runtime
        aten.log_sigmoid.default: lambda tensor: op.Neg(op.Softplus(op.Neg(tensor))),
        aten.sym_numel.default: op.Size,
        aten.unflatten.int: _unflatten,
        aten.repeat_interleave.self_int: _repeat_interleave,
        aten.reshape_as.default: lambda tensor, other: op.Reshape(tensor, op.Shape(other)),
        # The mean of the slopes, which is random in training alone. torch's table lacks it.
        aten.rrelu_with_noise_functional.default: lambda tensor, noise, lower=1 / 8, upper=1 / 3, *_, **__: (
            op.LeakyRelu(tensor, alpha=(lower + upper) / 2),
            op.Identity(noise),
        ),
        aten.rsub.Scalar: _rsub,
        **{
            each: partial(_nearest, axes, shift)
            for name, shift in (("upsample_nearest", 0.0), ("_upsample_nearest_exact", 0.5))
            for axes in (1, 2, 3)
            for each in attrgetter("vec", "default")(getattr(aten, f"{name}{axes}d"))
        },
        aten.scaled_dot_product_attention.default: _attention,
        aten.split.Tensor: _split,
        **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _squeeze),
        aten.where.default: _where,
        aten.where.Scalar: _where_of_numbers,
        **{each: by for name, of in later.items() for each, by in of.items() if opset >= SINCE[name]},
    }


def _floor_quotient(dividend: Any, divisor: Any) -> Any:
    """A quotient of two sizes, rounded down; ONNX rounds towards zero."""
    # Only a negated size is negative, as in `-(-size // 8)`, which rounds up. Other quotients are one node.
    producer = dividend.producer() if hasattr(dividend, "producer") else None
    is_negative = producer is not None and producer.op_type == "Neg"
    return op.Div(op.Sub(dividend, op.Mod(dividend, divisor)) if is_negative else dividend, divisor)


def _whole(rounded: Any, number: Any) -> Any:
    """A size from a formula of real numbers, in float64 as in Python: 64 / 49 * 49 is less than 64 there."""
    return op.Cast(rounded(_in_double(number)), to=DataType.INT64)


def _in_double(number: Any) -> Any:
    """A formula of sizes and constants in float64. A constant such as 0.7 was rounded to float32."""
    node, tensor = number.producer(), onnx_ir.convenience.get_const_tensor(number)
    if tensor is not None:
        text = str(np.float32(single := tensor.numpy().item()))  # one of more digits was a quotient, such as 1 / 3
        near = float(text if len(text) <= DIGITS else Fraction(single).limit_denominator(4096))
        return op.Constant(value=onnx_ir.tensor(near if np.float32(near) == single else single, DataType.DOUBLE))
    if node is not None and node.op_type == "Cast" and number.dtype != DataType.INT64:
        return _in_double(node.inputs[0])
    if node is None or node.op_type not in FORMULAS or number.dtype == DataType.INT64:
        return op.Cast(number, to=DataType.DOUBLE)
    return getattr(op, node.op_type)(*map(_in_double, node.inputs))


def _arange(*ends: Any, dtype: int = -1, **_: Any) -> Any:
    """Numbers of equal distance. As in PyTorch, real ones are counted and computed in float64."""
    result = DataType.FLOAT if dtype == -1 else DataType(dtype)
    # Those that are multiples of 1 / 64 are exact in float32.
    is_real = any(each.dtype.is_floating_point() if hasattr(each, "dtype") else each * 64 % 1 for each in ends)
    if not is_real or not result.is_floating_point():
        of_integers = (core.aten_arange, core.aten_arange_start, core.aten_arange_start_step)[len(ends) - 1]
        return of_integers(*ends, dtype=dtype)
    every = {1: (0, *ends, 1), 2: (*ends, 1)}.get(len(ends), ends)
    start, end, step = (_in_double(each) if hasattr(each, "dtype") else scalar(each, DataType.DOUBLE) for each in every)
    count = op.Cast(op.Ceil(op.Div(op.Sub(end, start), step)), to=DataType.INT64)
    places = op.Cast(op.Range(scalar(0), count, scalar(1)), to=DataType.DOUBLE)
    return op.Cast(op.Add(start, op.Mul(places, step)), to=result)


def _addmm(tensor: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """A matrix product plus a tensor; the Gemm of torch's table takes no integers, and no factor from sizes."""
    is_gemm = left.dtype.is_floating_point() and not any(isinstance(factor, onnx_ir.Value) for factor in (beta, alpha))
    return (core.aten_addmm if is_gemm else core.aten_baddbmm)(tensor, left, right, beta, alpha)


def _gelu(tensor: Any, approximate: str = "none") -> Any:
    """`tensor * 0.5 * (1 + erf(...))`, or with tanh: ONNX Runtime finds a Gelu in this order, not in torch's table."""
    number = partial(scalar, dtype=tensor.dtype)
    if approximate == "tanh":
        cubic = op.Add(tensor, op.Mul(op.Pow(tensor, number(3.0)), number(0.044715)))
        curve = op.Tanh(op.Mul(cubic, number(math.sqrt(2 / math.pi))))
    else:
        curve = op.Erf(op.Div(tensor, number(math.sqrt(2))))
    return op.Mul(op.Mul(tensor, number(0.5)), op.Add(curve, number(1.0)))


def _convolution(axes: int, tensor: Any, weight: Any, bias: Any = None, *options: Any) -> Any:
    """A convolution with the padding "same", of which an odd element is behind, or "valid", none."""
    defaults: list[Any] = [1, "valid", 1, 1]
    stride, padding, dilation, groups = *options, *defaults[len(options) :]
    strides, dilations = (np.broadcast_to(each, axes).tolist() for each in (stride, dilation))
    sizes = weight.shape[2:] if padding == "same" else [1] * axes
    reach = [step * (int(size) - 1) for step, size in zip(dilations, sizes, strict=True)]
    pads = [*(each // 2 for each in reach), *(each - each // 2 for each in reach)]
    one_picture = len(tensor.shape) == axes + 1
    pictures = op.Unsqueeze(tensor, integers(0)) if one_picture else tensor
    result = op.Conv(pictures, weight, bias, strides=strides, pads=pads, dilations=dilations, group=groups)
    return op.Squeeze(result, integers(0)) if one_picture else result


def _linear(tensor: Any, weight: Any, bias: Any = None) -> Any:
    """A linear layer; the Gemm of torch's table takes no integers."""
    if tensor.dtype.is_floating_point():
        return nn.aten_linear(tensor, weight, bias)
    product = op.MatMul(tensor, op.Transpose(weight))
    return product if bias is None else op.Add(product, bias)


def _batch_norm(tensor: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *options: Any) -> Any:
    """A batch norm; torch decomposes it. In training mode it takes the mean and the variance of the batch."""
    statistics, (momentum, eps, *_) = (None, None) if training else (mean, variance), options
    return core.aten_native_batch_norm(tensor, weight, bias, *statistics, False, momentum, eps)[0]


def _at_indices(function: Callable[..., Any], tensor: Any, indices: Any, *others: Any) -> Any:
    """What a function of torch's table computes at indices, which may be int32; it takes them for int64."""
    # None stands for all indices of an axis.
    is_short = [getattr(index, "dtype", None) == DataType.INT32 for index in indices]
    in_int64 = [cast(index, DataType.INT64) if short else index for index, short in zip(indices, is_short, strict=True)]
    return function(tensor, in_int64, *others)


def _split(tensor: Any, size: Any, dim: int = 0) -> Any:
    """Parts of a tensor; torch's table makes a sequence of no known length if their size follows from other sizes."""
    if isinstance(size, onnx_ir.Value):
        raise CaptureFailed("the size of the parts follows from sizes of inputs: take slices, as x[:, : n // 2]")
    return core.aten_split(tensor, size, dim)


def _squeeze(tensor: Any, dim: Any = None) -> Any:
    """A tensor without these axes, or all, of size 1; a dynamic axis stays, which torch's table removes."""
    sizes = list(tensor.shape or ())
    axes = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    single = [axis for axis in axes if sizes and sizes[axis] == 1]
    return op.Squeeze(tensor, integers(*single)) if single else op.Identity(tensor)


def _flatten(tensor: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Some axes of a tensor as one axis; torch's table reads sizes where a constant shape says the same."""
    rank = len(tensor.shape)
    start, end = (axis % max(rank, 1) for axis in (start_dim, end_dim))
    sizes = tensor.shape[start : end + 1]
    joined = prod(sizes) if all(isinstance(size, int) for size in sizes) else -1  # -1 is none if a kept axis is empty
    return _reshaped(tensor, start, [joined, *tensor.shape[end + 1 :]]) or core.aten_flatten(tensor, start_dim, end_dim)


def _unflatten(tensor: Any, dim: int, sizes: Any) -> Any:
    """An axis of a tensor as several axes; torch's table reads sizes where a constant shape says the same."""
    axis = dim % len(tensor.shape)
    return _reshaped(tensor, axis, [*sizes, *tensor.shape[axis + 1 :]]) or core.aten_unflatten(tensor, dim, sizes)


def _reshaped(tensor: Any, kept: int, sizes: Any) -> Any:
    """A tensor with its first `kept` axes and then these; None if more than one of their sizes is not a constant."""
    known = [size if isinstance(size, int) else -1 for size in sizes]
    return op.Reshape(tensor, integers(*[0] * kept, *known)) if known.count(-1) <= 1 else None


def _adaptive_avg_pool(rank: int, tensor: Any, output_size: Any) -> Any:
    """The means of `output_size` parts of the last axes, as many as `rank`: one or two, of any size."""
    axes = range(len(tensor.shape) - rank, len(tensor.shape))
    parts = [*output_size] if len(output_size) == rank else [*output_size] * rank
    if {*parts} == {1}:
        return op.ReduceMean(tensor, integers(*axes), keepdims=1)
    # torch decomposes it into windows of the traced sizes. Parts overlap where a side is no multiple of their number.
    *rows, columns = (_mean_weights(tensor, axis, count) for axis, count in zip(axes, parts, strict=True))
    return op.MatMul(op.MatMul(*rows, tensor) if rows else tensor, op.Transpose(columns, perm=[1, 0]))


def _mean_weights(image: Any, axis: int, parts: int) -> Any:
    """`[parts, size]`: the weight of each index of an axis in the mean of each part."""
    length = size(image, axis)
    starts, ends = (op.Mul(integers(*range(first, first + parts)), length) for first in (0, 1))
    first = op.Unsqueeze(op.Div(starts, integers(parts)), integers(1))
    last = op.Unsqueeze(op.Div(op.Add(ends, integers(parts - 1)), integers(parts)), integers(1))
    indices = op.Unsqueeze(counted(length), integers(0))
    is_inside = op.And(op.GreaterOrEqual(indices, first), op.Less(indices, last))
    return op.Div(*(op.Cast(value, to=int(image.dtype)) for value in (is_inside, op.Sub(last, first))))


def _copy(tensor: Any, source: Any, non_blocking: bool = False) -> Any:  # noqa: ARG001
    """A tensor with the elements of another, which is repeated if it is smaller; torch's table does not repeat it."""
    elements = op.CastLike(source, tensor)
    return elements if source.shape == tensor.shape else op.Expand(elements, op.Shape(tensor))


def _slice_scatter(tensor: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A tensor with a slice replaced; behind a number of tokens, as in a static cache, by one TensorScatter."""
    if not isinstance(start, onnx_ir.Value) or dim == 0 or step != 1:
        return core.aten_slice_scatter(tensor, source, dim, start, end, step)
    index, batch = op.Reshape(start, integers(1)), tensor.shape[0]
    index = index if batch == 1 else op.Expand(index, integers(batch) if isinstance(batch, int) else size(tensor, 0))
    return typed(Opset("", 24).TensorScatter(tensor, source, index, axis=dim), tensor.dtype, tensor.shape)


def _where(condition: Any) -> list[Any]:
    """The indices of the elements that are true, one tensor for each axis; torch decomposes it in a second trace."""
    indices = op.NonZero(condition)
    return [op.Gather(indices, op.Constant(value_int=axis), axis=0) for axis in range(len(condition.shape))]


def _where_of_numbers(condition: Any, number: Any, other: Any) -> Any:
    """One of two numbers where a condition holds, else the other; torch's table gives them dtypes of their own."""
    dtype = DataType.FLOAT if any(isinstance(each, float) for each in (number, other)) else DataType.INT64
    return op.Where(condition, scalar(number, dtype), scalar(other, dtype))


def _repeat_interleave(tensor: Any, repeats: Any, dim: int | None = None, output_size: Any = None) -> Any:  # noqa: ARG001
    """Each slice of a tensor along an axis, or each element where there is no axis, repeated."""
    rank, axis = (1, 0) if dim is None else (len(tensor.shape), dim % len(tensor.shape))
    tensor = op.Reshape(tensor, integers(-1)) if dim is None else tensor
    times = op.Reshape(repeats, integers(1)) if isinstance(repeats, onnx_ir.Value) else integers(repeats)
    ones = [integers(*[1] * count) for count in (rank - axis - 1,) if count]
    # torch's table repeats along the axis before it when `repeats` is a dynamic size (the points of an image in SAM).
    expanded = op.Expand(op.Unsqueeze(tensor, integers(axis + 1)), op.Concat(times, *ones, axis=0))
    sizes_after = op.Shape(tensor, start=axis + 1, end=rank)
    return op.Reshape(expanded, op.Concat(op.Shape(tensor, start=0, end=axis), integers(-1), sizes_after, axis=0))


def _rsub(tensor: Any, other: Any, alpha: float = 1) -> Any:
    """A number minus a tensor: `1.0 - attention_mask`."""
    # torch decomposes it. The type promotion then fails for a tensor of integers and a Python number of floats (xlnet).
    is_dynamic = isinstance(other, onnx_ir.Value)  # a size of an input, or a number computed from sizes
    is_float = isinstance(alpha, float) or (other.dtype.is_floating_point() if is_dynamic else isinstance(other, float))
    dtype = DataType.FLOAT if is_float and not tensor.dtype.is_floating_point() else tensor.dtype
    minuend = op.Cast(other, to=int(dtype)) if is_dynamic else scalar(other, dtype)
    subtrahend = tensor if dtype == tensor.dtype else op.Cast(tensor, to=int(dtype))
    return op.Sub(minuend, subtrahend if alpha == 1 else op.Mul(subtrahend, scalar(alpha, dtype)))


def _nearest(axes: int, shift: float, image: Any, sizes: Any = None, *factors: Any) -> Any:
    """The last axes of an image resized, by the pixel at the start of each new one, or at its middle (`shift`)."""
    # PyTorch takes floor(place * step), and Resize floor(place / factor), which is rounded to another pixel at times.
    passed = factors[0] if factors and isinstance(factors[0], Sequence) else factors
    known: list[Any] = [*passed] if passed and all(passed) else [None] * axes
    first, is_single = len(image.shape) - axes, image.dtype != DataType.DOUBLE  # ONNX Runtime resizes no float64
    if is_single and all(by and _is_resize(LONGEST, 1 / by, by, shift) for by in known):
        return nn.aten_upsample_nearestnd_vec(image, None, known)
    new = sizes or [_scaled(image, axis, by) for axis, by in enumerate(known, first)]
    sides = [*zip(range(first, first + axes), image.shape[first:], new, known, strict=True)]
    is_fixed = all(isinstance(size, int) for _, *both, _ in sides for size in both)
    if is_single and is_fixed and all(_is_resize(n, 1 / by if by else o / n, n / o, shift) for _, o, n, by in sides):
        return nn.aten_upsample_nearestnd_vec(image, integers(*new))
    dtype, last = DataType.FLOAT if is_single else DataType.DOUBLE, first + axes - 1
    for axis, old, count, by in reversed(sides):
        if not (by == 1 if by else isinstance(count, int) and count == old):
            index = _pixels(size(image, axis), count, by, shift, dtype)
            # Gather copies the numbers of a last axis one by one, and those of others as blocks.
            image = op.Transpose(image, perm=[0, last, *range(1, last)]) if axis == last else image
            image = op.Gather(image, index, axis=1 if axis == last else axis)
            image = op.Transpose(image, perm=[0, *range(2, last + 1), 1]) if axis == last else image
    return image


@cache
def _is_resize(count: int, step: float, factor: float, shift: float) -> bool:
    """Whether Resize gives the size and the pixels of PyTorch for all places up to a count."""
    places, scale = np.arange(count, dtype=np.float32), np.float32(factor)
    has_pixels = np.floor(places / scale) == np.floor((places + np.float32(shift)) * np.float32(step))
    return bool((has_pixels & (np.floor(places * scale) == np.floor(np.arange(count) * factor))).all())


def _scaled(image: Any, axis: int, factor: float) -> Any:
    """The size of an axis times a factor, rounded down in float64 as in PyTorch."""
    if isinstance(image.shape[axis], int):
        return int(image.shape[axis] * factor)
    number = op.Cast(size(image, axis), to=DataType.DOUBLE)
    return op.Cast(op.Mul(number, scalar(factor, DataType.DOUBLE)), to=DataType.INT64)


def _pixels(old: Any, new: Any, factor: float | None, shift: float, dtype: Any) -> Any:
    """The index of the old pixel for each new one along an axis."""
    count = integers(new) if isinstance(new, int) else op.Reshape(new, integers(1))
    ratio = scalar(1 / factor, dtype) if factor else op.Div(op.Cast(old, to=dtype), op.Cast(count, to=dtype))
    places = op.Cast(counted(count), to=dtype)
    points = op.Add(places, scalar(shift, dtype)) if shift else places
    index = op.Cast(op.Cast(op.Mul(points, ratio), to=DataType.FLOAT), to=DataType.INT64)  # float32 first, as PyTorch
    return op.Min(index, op.Sub(old, integers(1))) if factor else index  # a quotient of sizes rounds to no place beyond


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Scaled dot product attention; the output is zero for a query without unmasked keys."""
    if not all(isinstance(tensor.shape[-1], int) for tensor in (query, key, value)):
        return nn.aten_scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        )
    if is_causal:
        rows, columns = (counted(size(tensor, -2)) for tensor in (query, key))
        is_earlier = op.LessOrEqual(op.Unsqueeze(columns, integers(0)), op.Unsqueeze(rows, integers(1)))
        attn_mask = typed(is_earlier, DataType.BOOL, onnx_ir.Shape([query.shape[-2], key.shape[-2]]))
    if enable_gqa:
        key, value = (_repeat_groups(tensor, query.shape[1]) for tensor in (key, value))
    # The last two axes are the length and the head size. torch's table, which translates a dynamic head size, computes
    # the mean of all values for a query without keys: in a left-padded batch with a sliding window (modernbert).
    dtype = query.dtype
    scaled = op.Mul(query, scalar(query.shape[-1] ** -0.5 if scale is None else scale, dtype))
    *leading, last_but_one, last = range(len(query.shape))
    scores = op.MatMul(scaled, op.Transpose(key, perm=[*leading, last, last_but_one]))
    added, has_keys = attn_mask, None
    if attn_mask is not None and attn_mask.dtype == DataType.BOOL:
        added = op.Where(attn_mask, scalar(0.0, dtype), scalar(dtype.min, dtype))
        # The same in every layer that shares the mask, so one copy is left once common subexpressions are removed.
        has_keys = op.ReduceMax(op.Cast(attn_mask, to=int(dtype)), integers(-1), keepdims=1)
    elif attn_mask is not None and _may_hide_all(attn_mask):
        is_hidden = op.Equal(op.ReduceMax(attn_mask, integers(-1), keepdims=1), scalar(float("-inf"), dtype))
        added = op.Where(is_hidden, scalar(0.0, dtype), attn_mask)
        has_keys = op.Where(is_hidden, scalar(0.0, dtype), scalar(1.0, dtype))
    product = op.MatMul(op.Softmax(scores if added is None else op.Add(scores, added), axis=-1), value)
    return product if has_keys is None else op.Mul(product, has_keys)


def _may_hide_all(mask: Any) -> bool:
    """Whether a mask that is added to scores may be minus infinity at all keys: an input, or a part of it, is."""
    node, tensor = mask.producer(), onnx_ir.convenience.get_const_tensor(mask)
    if node is None:
        return bool(mask.dtype.is_floating_point() and not mask.name.startswith(WEIGHTS))
    is_infinite = node.op_type == "Log" or (tensor is not None and (tensor.numpy() == -np.inf).any())
    return is_infinite or (node.op_type in MASKED.split() and any(map(_may_hide_all, filter(None, node.inputs))))


def _repeat_groups(states: Any, heads: int) -> Any:
    """Keys or values `[batch, groups, length, size]`, each group repeated for its heads: `[batch, heads, ...]`."""
    _, groups, _, head_size = states.shape
    if groups == heads:
        return states
    expanded = op.Expand(op.Unsqueeze(states, integers(2)), integers(1, 1, heads // groups, 1, 1))
    return op.Reshape(expanded, integers(0, heads, -1, head_size))
