"""Translations to ONNX of torch operators that torch's own table lacks or translates wrongly."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from onnxfn.graphs.capture.distance_translations import distance_translations
from onnxfn.graphs.capture.element_translations import element_translations
from onnxfn.graphs.capture.linear_algebra import linear_algebra_translations
from onnxfn.graphs.capture.ordered_translations import ordered_translations
from onnxfn.graphs.capture.scatter_translations import scatter_translations


def translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    import torch

    return {
        **distance_translations(),
        **element_translations(),
        **linear_algebra_translations(),
        **ordered_translations(),
        **scatter_translations(),
        operator.floordiv: _floor_quotient,
        torch.ops.aten.adaptive_avg_pool1d.default: _adaptive_avg_pool1d,
        torch.ops.aten.adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
        torch.ops.aten.batch_norm.default: _batch_norm,
        torch.ops.aten.conv_transpose2d.input: _conv_transpose2d,
        torch.ops.aten._unsafe_index.Tensor: _index,
        torch.ops.aten._unsafe_index_put.default: _index_put,
        torch.ops.aten.flatten.using_ints: _flatten,
        torch.ops.aten.index.Tensor: _index,
        torch.ops.aten.index_put.default: _index_put,
        torch.ops.aten.log_sigmoid.default: _log_sigmoid,
        torch.ops.aten.sym_numel.default: _sym_numel,
        torch.ops.aten.unflatten.int: _unflatten,
        torch.ops.aten.repeat_interleave.self_int: _repeat_interleave,
        torch.ops.aten.reshape_as.default: _reshape_as,
        torch.ops.aten.rrelu_with_noise_functional.default: _rrelu,
        torch.ops.aten.rsub.Scalar: _rsub,
        torch.ops.aten.scaled_dot_product_attention.default: _attention,
        torch.ops.aten.squeeze.default: _squeeze,
        torch.ops.aten.squeeze.dim: _squeeze,
        torch.ops.aten.squeeze.dims: _squeeze,
        torch.ops.aten.where.default: _where,
    }


def _floor_quotient(dividend: Any, divisor: Any) -> Any:
    """A quotient of two sizes, rounded down; ONNX rounds towards zero.

    Only a negated size is negative, as in `-(-size // 8)`, which rounds up. Other quotients are one node.
    """
    from onnxscript import opset18 as op

    producer = dividend.producer() if hasattr(dividend, "producer") else None
    is_negative = producer is not None and producer.op_type == "Neg"
    return op.Div(op.Sub(dividend, op.Mod(dividend, divisor)) if is_negative else dividend, divisor)


def _reshape_as(tensor: Any, other: Any) -> Any:
    """A tensor reshaped to the shape of another; torch's table lacks it."""
    from onnxscript import opset18 as op

    return op.Reshape(tensor, op.Shape(other))


def _log_sigmoid(tensor: Any) -> Any:
    """The logarithm of the sigmoid; torch's table takes the logarithm of a number that is 0 for -20 in ONNX Runtime."""
    from onnxscript import opset18 as op

    return op.Neg(op.Softplus(op.Neg(tensor)))


def _rrelu(
    tensor: Any,
    noise: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,  # noqa: FBT001, FBT002, ARG001 - torch's own signature
    generator: Any = None,  # noqa: ARG001
) -> Any:
    """A leaky ReLU with the mean of the slopes, which is random in training alone; torch's table lacks it."""
    from onnxscript import opset18 as op

    return op.LeakyRelu(tensor, alpha=(lower + upper) / 2), op.Identity(noise)


def _batch_norm(
    tensor: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,  # noqa: FBT001 - torch's own signature
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,  # noqa: FBT001, FBT002, ARG001
) -> Any:
    """A batch norm; torch decomposes it. In training mode it takes the mean and the variance of the batch."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_native_batch_norm as from_table

    statistics = (None, None) if training else (running_mean, running_var)
    return from_table(tensor, weight, bias, *statistics, False, momentum, eps)[0]


def _index(tensor: Any, indices: Any) -> Any:
    """The elements at indices, which may be int32; torch's table takes them for int64."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_index as from_table

    return from_table(tensor, _in_int64(indices))


def _index_put(tensor: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:  # noqa: FBT001, FBT002
    """A tensor with other elements at indices, which may be int32; torch's table takes them for int64."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_index_put as from_table

    return from_table(tensor, _in_int64(indices), values, accumulate)


def _in_int64(indices: Any) -> list[Any]:
    """Indices with those in int32 as int64; None stands for all indices of an axis."""
    from onnx_ir import DataType

    is_short = [getattr(index, "dtype", None) == DataType.INT32 for index in indices]
    return [_cast_to_int64(index) if short else index for index, short in zip(indices, is_short, strict=True)]


def _cast_to_int64(index: Any) -> Any:
    """An index in int64, with the shape that torch's table reads."""
    from onnx_ir import DataType
    from onnxscript import opset18 as op

    wide = op.Cast(index, to=DataType.INT64)
    wide.shape = index.shape
    return wide


def _squeeze(tensor: Any, dim: Any = None) -> Any:
    """A tensor without these axes, or all, of size 1; a dynamic axis stays, which torch's table removes."""
    from onnxscript import opset18 as op

    sizes = list(tensor.shape or ())
    axes = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    single = [axis for axis in axes if sizes and sizes[axis] == 1]
    return op.Squeeze(tensor, op.Constant(value_ints=single)) if single else op.Identity(tensor)


def _flatten(tensor: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Some axes of a tensor as one axis; torch's table reads sizes where a constant shape says the same."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_flatten as from_table

    rank = len(tensor.shape)
    start, end = (axis % max(rank, 1) for axis in (start_dim, end_dim))
    return _reshaped(tensor, start, [-1, *tensor.shape[end + 1 :]]) or from_table(tensor, start_dim, end_dim)


def _unflatten(tensor: Any, dim: int, sizes: Any) -> Any:
    """An axis of a tensor as several axes; torch's table reads sizes where a constant shape says the same."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_unflatten as from_table

    axis = dim % len(tensor.shape)
    return _reshaped(tensor, axis, [*sizes, *tensor.shape[axis + 1 :]]) or from_table(tensor, dim, sizes)


def _reshaped(tensor: Any, kept: int, sizes: Any) -> Any:
    """A tensor with its first `kept` axes and then these; None if more than one of their sizes is not a constant."""
    from onnxscript import opset18 as op

    known = [size if isinstance(size, int) else -1 for size in sizes]
    return op.Reshape(tensor, op.Constant(value_ints=[0] * kept + known)) if known.count(-1) <= 1 else None


def _sym_numel(tensor: Any) -> Any:
    """The number of elements of a tensor; torch's table lacks it."""
    from onnxscript import opset18 as op

    return op.Size(tensor)


def _conv_transpose2d(
    image: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """A transposed convolution of images; torch's table has it only as an option of `aten.convolution`."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_convolution as from_table

    stride, padding, output_padding, dilation = map(_height_and_width, (stride, padding, output_padding, dilation))
    return from_table(image, weight, bias, stride, padding, dilation, True, output_padding, groups)


def _height_and_width(value: Any) -> list[int]:
    """The values for height and width, of which torch gives one or both."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values if len(values) > 1 else values * 2


def _adaptive_avg_pool1d(sequence: Any, output_size: Any) -> Any:
    """The means of `output_size` parts of the last axis, which may have any size; see `_adaptive_avg_pool2d`."""
    from onnxscript import opset18 as op

    axis = len(sequence.shape) - 1
    if output_size[0] == 1:
        return op.ReduceMean(sequence, op.Constant(value_ints=[axis]), keepdims=1)
    return op.MatMul(sequence, op.Transpose(_mean_weights(sequence, axis, output_size[0]), perm=[1, 0]))


def _adaptive_avg_pool2d(image: Any, output_size: Any) -> Any:
    """The means of `output_size` parts of an image `[batch, channels, height, width]` of any size.

    torch decomposes it into windows of the traced sizes (in UPerNet's pyramid). Parts overlap where a side is not a
    multiple of their number.
    """
    from onnxscript import opset18 as op

    parts = _height_and_width(output_size)
    if parts == [1, 1]:
        return op.ReduceMean(image, op.Constant(value_ints=[2, 3]), keepdims=1)
    rows, columns = (_mean_weights(image, axis, count) for axis, count in zip((2, 3), parts, strict=True))
    return op.MatMul(op.MatMul(rows, image), op.Transpose(columns, perm=[1, 0]))


def _mean_weights(image: Any, axis: int, parts: int) -> Any:
    """`[parts, size]`: the weight of each index of an axis in the mean of each part."""
    import onnx_ir
    from onnxscript import opset18 as op

    def integers(*numbers: int) -> Any:
        return op.Constant(value_ints=list(numbers))

    size = op.Shape(image, start=axis, end=axis + 1)
    starts, ends = (op.Mul(integers(*range(first, first + parts)), size) for first in (0, 1))
    first = op.Unsqueeze(op.Div(starts, integers(parts)), integers(1))
    last = op.Unsqueeze(op.Div(op.Add(ends, integers(parts - 1)), integers(parts)), integers(1))
    zero, one = (op.Constant(value=onnx_ir.tensor(number, dtype=onnx_ir.DataType.INT64)) for number in (0, 1))
    indices = op.Unsqueeze(op.Range(zero, op.Squeeze(size, integers(0)), one), integers(0))
    is_inside = op.And(op.GreaterOrEqual(indices, first), op.Less(indices, last))
    inside, count = (op.Cast(value, to=int(image.dtype)) for value in (is_inside, op.Sub(last, first)))
    return op.Div(inside, count)


def _where(condition: Any) -> list[Any]:
    """The indices of the elements that are true, one tensor for each axis; torch decomposes it in a second trace."""
    from onnxscript import opset18 as op

    indices = op.NonZero(condition)
    return [op.Gather(indices, op.Constant(value_int=axis), axis=0) for axis in range(len(condition.shape))]


def _repeat_interleave(tensor: Any, repeats: Any, dim: int, output_size: Any = None) -> Any:  # noqa: ARG001
    """Each slice of a tensor along an axis, repeated.

    torch's table repeats along the axis before it when `repeats` is a dynamic size (the points of an image in SAM).
    """
    import onnx_ir
    from onnxscript import opset18 as op

    rank = len(tensor.shape)
    axis = dim % rank
    is_dynamic = isinstance(repeats, onnx_ir.Value)
    times = op.Reshape(repeats, op.Constant(value_ints=[1])) if is_dynamic else op.Constant(value_ints=[repeats])
    unsqueezed = op.Unsqueeze(tensor, op.Constant(value_ints=[axis + 1]))
    ones = [op.Constant(value_ints=[1] * count) for count in (rank - axis - 1,) if count]
    expanded = op.Expand(unsqueezed, op.Concat(times, *ones, axis=0))
    sizes_after = op.Shape(tensor, start=axis + 1, end=rank)
    return op.Reshape(
        expanded, op.Concat(op.Shape(tensor, start=0, end=axis), op.Constant(value_ints=[-1]), sizes_after, axis=0)
    )


def _rsub(tensor: Any, other: Any, alpha: float = 1) -> Any:
    """A number minus a tensor: `1.0 - attention_mask`.

    torch decomposes it into a subtraction from a Python number. Its type promotion then fails when the tensor has
    integers and the number is a float (xlnet).
    """
    import onnx_ir
    from onnxscript import opset18 as op

    is_dynamic = isinstance(other, onnx_ir.Value)  # a size of an input, or a number computed from sizes
    is_float = any(isinstance(number, float) for number in (other, alpha)) or (
        is_dynamic and other.dtype.is_floating_point()
    )
    dtype = onnx_ir.DataType.FLOAT if is_float and not tensor.dtype.is_floating_point() else tensor.dtype

    def constant(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, dtype=dtype))

    minuend = op.Cast(other, to=int(dtype)) if is_dynamic else constant(other)
    subtrahend = tensor if dtype == tensor.dtype else op.Cast(tensor, to=int(dtype))
    return op.Sub(minuend, subtrahend if alpha == 1 else op.Mul(subtrahend, constant(alpha)))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Scaled dot product attention, which is zero for a query whose keys are all masked.

    The last two axes are the length and the head size; any number of axes may come before them.

    torch's kernels compute zero there. torch's ONNX table computes the mean of all values, since it writes `-inf` as
    the lowest float. This shows in every left-padded batch of a model with a sliding window (modernbert). torch's table
    translates attention with a dynamic head size.
    """
    import onnx_ir
    from onnxscript import opset18 as op
    from onnxscript.function_libs.torch_lib.ops.nn import aten_scaled_dot_product_attention as from_table

    if not all(isinstance(tensor.shape[-1], int) for tensor in (query, key, value)):
        return from_table(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if is_causal:
        attn_mask = _causal_mask(query, key)
    if enable_gqa:
        key, value = (_repeat_groups(tensor, query.shape[1]) for tensor in (key, value))
    dtype = query.dtype
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scaled = op.Mul(query, op.Constant(value=onnx_ir.tensor(factor, dtype=dtype)))
    *leading, length, size = range(len(query.shape))
    scores = op.MatMul(scaled, op.Transpose(key, perm=[*leading, size, length]))
    if attn_mask is None or attn_mask.dtype != onnx_ir.DataType.BOOL:
        masked = scores if attn_mask is None else op.Add(scores, attn_mask)
        return op.MatMul(op.Softmax(masked, axis=-1), value)
    zero = op.Constant(value=onnx_ir.tensor(0.0, dtype=dtype))
    lowest = op.Constant(value=onnx_ir.tensor(dtype.min, dtype=dtype))
    weights = op.Softmax(op.Add(scores, op.Where(attn_mask, zero, lowest)), axis=-1)
    # The same in every layer that shares the mask, so one copy is left once common subexpressions are removed.
    has_keys = op.ReduceMax(op.Cast(attn_mask, to=int(dtype)), op.Constant(value_ints=[-1]), keepdims=1)
    return op.Mul(op.MatMul(weights, value), has_keys)


def _causal_mask(query: Any, key: Any) -> Any:
    """The mask `[queries, keys]` that is true for keys up to the index of the query."""
    import onnx_ir
    from onnxscript import opset18 as op

    zero, one = (op.Constant(value=onnx_ir.tensor(number, dtype=onnx_ir.DataType.INT64)) for number in (0, 1))
    first = op.Constant(value_ints=[0])
    rows, columns = (
        op.Range(zero, op.Squeeze(op.Shape(tensor, start=-2, end=-1), first), one) for tensor in (query, key)
    )
    mask = op.LessOrEqual(op.Unsqueeze(columns, first), op.Unsqueeze(rows, op.Constant(value_ints=[1])))
    mask.shape, mask.type = onnx_ir.Shape([query.shape[-2], key.shape[-2]]), onnx_ir.TensorType(onnx_ir.DataType.BOOL)
    return mask


def _repeat_groups(states: Any, heads: int) -> Any:
    """Keys or values `[batch, groups, length, size]`, each group repeated for its heads: `[batch, heads, ...]`."""
    from onnxscript import opset18 as op

    _, groups, _, size = states.shape
    if groups == heads:
        return states
    unsqueezed = op.Unsqueeze(states, op.Constant(value_ints=[2]))
    expanded = op.Expand(unsqueezed, op.Constant(value_ints=[1, 1, heads // groups, 1, 1]))
    return op.Reshape(expanded, op.Constant(value_ints=[0, heads, -1, size]))
