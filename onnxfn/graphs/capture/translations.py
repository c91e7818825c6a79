"""Operators of torch in ONNX where torch's own table says it wrongly or not at all; a reason each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def translations() -> dict[Any, Callable[..., Any]]:
    """The table: operator of torch -> a function on onnxscript values."""
    import torch

    return {
        torch.ops.aten.adaptive_avg_pool2d.default: _averaged,
        torch.ops.aten.conv_transpose2d.input: _enlarged,
        torch.ops.aten.repeat_interleave.self_int: _each_repeated,
        torch.ops.aten.reshape_as.default: _reshaped,
        torch.ops.aten.rsub.Scalar: _subtracted,
        torch.ops.aten.scaled_dot_product_attention.default: _attention,
    }


def _reshaped(tensor: Any, other: Any) -> Any:
    """A tensor in the shape of another, which torch's table lacks."""
    from onnxscript import opset18 as op

    return op.Reshape(tensor, op.Shape(other))


def _enlarged(
    image: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """A convolution the other way round, which torch's table knows as a kind of convolution alone."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_convolution as from_table

    stride, padding, output_padding, dilation = map(_of_each_side, (stride, padding, output_padding, dilation))
    return from_table(image, weight, bias, stride, padding, dilation, True, output_padding, groups)


def _of_each_side(given: Any) -> list[int]:
    """What torch says of both sides of an image, once or twice."""
    told = list(given) if isinstance(given, (list, tuple)) else [given]
    return told if len(told) > 1 else told * 2


def _averaged(image: Any, output_size: Any) -> Any:
    """The means of so many equal parts of an image `[batch, channels, height, width]`, of whatever size.

    torch takes it apart into windows of the sizes that were traced (UPerNet's pyramid). Parts overlap where a side is
    no multiple of their number.
    """
    from onnxscript import opset18 as op

    parts = _of_each_side(output_size)
    if parts == [1, 1]:
        return op.ReduceMean(image, op.Constant(value_ints=[2, 3]), keepdims=1)
    down, across = (_shares(image, axis, many) for axis, many in zip((2, 3), parts, strict=True))
    return op.MatMul(op.MatMul(down, image), op.Transpose(across, perm=[1, 0]))


def _shares(image: Any, axis: int, parts: int) -> Any:
    """`[parts, size]`: how much each place along an axis counts in the mean of each part."""
    import onnx_ir
    from onnxscript import opset18 as op

    def whole(*numbers: int) -> Any:
        return op.Constant(value_ints=list(numbers))

    size = op.Shape(image, start=axis, end=axis + 1)
    starts, ends = (op.Mul(whole(*range(first, first + parts)), size) for first in (0, 1))
    first = op.Unsqueeze(op.Div(starts, whole(parts)), whole(1))
    last = op.Unsqueeze(op.Div(op.Add(ends, whole(parts - 1)), whole(parts)), whole(1))
    zero, one = (op.Constant(value=onnx_ir.tensor(number, dtype=onnx_ir.DataType.INT64)) for number in (0, 1))
    places = op.Unsqueeze(op.Range(zero, op.Squeeze(size, whole(0)), one), whole(0))
    inside = op.And(op.GreaterOrEqual(places, first), op.Less(places, last))
    counted, many = (op.Cast(made, to=int(image.dtype)) for made in (inside, op.Sub(last, first)))
    return op.Div(counted, many)


def _each_repeated(tensor: Any, repeats: Any, dim: int, output_size: Any = None) -> Any:  # noqa: ARG001
    """Each of a tensor's slices several times, one after the other.

    torch's table repeats along the axis before, where a size that moves says how often (SAM's points of an image).
    """
    import onnx_ir
    from onnxscript import opset18 as op

    rank = len(tensor.shape)
    axis = dim % rank
    moves = isinstance(repeats, onnx_ir.Value)
    times = op.Reshape(repeats, op.Constant(value_ints=[1])) if moves else op.Constant(value_ints=[repeats])
    lifted = op.Unsqueeze(tensor, op.Constant(value_ints=[axis + 1]))
    ones = [op.Constant(value_ints=[1] * many) for many in (rank - axis - 1,) if many]
    spread = op.Expand(lifted, op.Concat(times, *ones, axis=0))
    kept = op.Shape(tensor, start=axis + 1, end=rank)
    return op.Reshape(
        spread, op.Concat(op.Shape(tensor, start=0, end=axis), op.Constant(value_ints=[-1]), kept, axis=0)
    )


def _subtracted(tensor: Any, other: Any, alpha: float = 1) -> Any:
    """A number minus a tensor: `1.0 - attention_mask`.

    torch takes it apart into a subtraction from a bare number, and its own promotion of types then refuses that when
    the tensor holds whole numbers and the number does not (xlnet).
    """
    import onnx_ir
    from onnxscript import opset18 as op

    sized = isinstance(other, onnx_ir.Value)  # a size of the model's inputs, or a number made of such
    real = any(isinstance(one, float) for one in (other, alpha)) or (sized and other.dtype.is_floating_point())
    dtype = onnx_ir.DataType.FLOAT if real and not tensor.dtype.is_floating_point() else tensor.dtype

    def number(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, dtype=dtype))

    minuend = op.Cast(other, to=int(dtype)) if sized else number(other)
    subtrahend = tensor if dtype == tensor.dtype else op.Cast(tensor, to=int(dtype))
    return op.Sub(minuend, subtrahend if alpha == 1 else op.Mul(subtrahend, number(alpha)))


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
    """Scaled dot product attention, zero where a query may look at nothing.

    torch's kernels answer zero there; torch's ONNX table answers the mean of all values, as `-inf` is spelt as the
    smallest float. It shows in every left-padded batch of a model with a sliding window (modernbert). A head whose size
    moves goes to torch's table.
    """
    import onnx_ir
    from onnxscript import opset18 as op
    from onnxscript.function_libs.torch_lib.ops.nn import aten_scaled_dot_product_attention as from_table

    if not all(isinstance(one.shape[3], int) for one in (query, key, value)):
        return from_table(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if is_causal:
        attn_mask = _causal(query, key)
    if enable_gqa:
        key, value = (_repeated(one, query.shape[1]) for one in (key, value))
    dtype = query.dtype
    factor = query.shape[3] ** -0.5 if scale is None else scale
    scaled = op.Mul(query, op.Constant(value=onnx_ir.tensor(factor, dtype=dtype)))
    scores = op.MatMul(scaled, op.Transpose(key, perm=[0, 1, 3, 2]))
    if attn_mask is None or attn_mask.dtype != onnx_ir.DataType.BOOL:
        summed = scores if attn_mask is None else op.Add(scores, attn_mask)
        return op.MatMul(op.Softmax(summed, axis=-1), value)
    zero = op.Constant(value=onnx_ir.tensor(0.0, dtype=dtype))
    lowest = op.Constant(value=onnx_ir.tensor(dtype.min, dtype=dtype))
    weights = op.Softmax(op.Add(scores, op.Where(attn_mask, zero, lowest)), axis=-1)
    # Alike in every layer that shares the mask, so one copy is left after common subexpressions are shared.
    sees = op.ReduceMax(op.Cast(attn_mask, to=int(dtype)), op.Constant(value_ints=[-1]), keepdims=1)
    return op.Mul(op.MatMul(weights, value), sees)


def _causal(query: Any, key: Any) -> Any:
    """The mask `[queries, keys]` under which a query looks at keys up to its own place."""
    import onnx_ir
    from onnxscript import opset18 as op

    zero, one = (op.Constant(value=onnx_ir.tensor(number, dtype=onnx_ir.DataType.INT64)) for number in (0, 1))
    first = op.Constant(value_ints=[0])
    rows, columns = (op.Range(zero, op.Squeeze(op.Shape(each, start=2, end=3), first), one) for each in (query, key))
    mask = op.LessOrEqual(op.Unsqueeze(columns, first), op.Unsqueeze(rows, op.Constant(value_ints=[1])))
    mask.shape, mask.type = onnx_ir.Shape([query.shape[2], key.shape[2]]), onnx_ir.TensorType(onnx_ir.DataType.BOOL)
    return mask


def _repeated(states: Any, heads: int) -> Any:
    """Keys or values `[batch, groups, length, size]` with each group once a head."""
    from onnxscript import opset18 as op

    _, groups, _, size = states.shape
    if groups == heads:
        return states
    lifted = op.Unsqueeze(states, op.Constant(value_ints=[2]))
    spread = op.Expand(lifted, op.Constant(value_ints=[1, 1, heads // groups, 1, 1]))
    return op.Reshape(spread, op.Constant(value_ints=[0, heads, -1, size]))
