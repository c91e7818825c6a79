"""Weights that are quantized while their bytes are read, some rows at a time."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen

from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.quantization import DYNAMIC, INTEGERS, STATIC, WeightRule
from onnxfn.weights.calibrated import InputErrors, calibrated_codes
from onnxfn.weights.chunks import chunks, element_view, lazy_tensor, memory_key, prefetched
from onnxfn.weights.onnxruntime_kernels import block_codes, nf4_codes

Role = Literal["codes", "scales", "zero_points"]

Parameters = deque[Mapping[Role, Any]]
"""The scales and the zero points of a weight, by their roles; empty before its codes are read."""

MATRIX_RANK = 2

BLOCK_BYTES, CALIBRATED_BYTES = 1 << 22, 1 << 24
"""Bytes of the float32 rows that are quantized at once. A kernel starts its threads at each call."""

THREADS = 2
"""Threads that quantize the next rows while the caller writes the current ones."""


@frozen
class QuantizedWeight:
    """A weight, matrices `[rows, columns]` or codes, and how it is quantized; `inputs` of its matrix of an index."""

    name: str
    tensor: Any
    rule: WeightRule
    inputs: Callable[[int], InputErrors | None] | None = None


def has_half_scales(rule: WeightRule) -> bool:
    """Whether the scales of a weight are float16, and a float32 graph casts them."""
    # At level 4 MatMulNBits returns zeros for scales behind a Cast without optimizations (ONNX Runtime 1.32).
    return rule.kind == "blocks" and rule.accuracy_level != 4  # noqa: PLR2004 - 8-bit integers


def roles(rule: WeightRule) -> tuple[Role, ...]:
    """The tensors that a weight is stored as, in their order in a file."""
    has_zero_points = (rule.kind == "blocks" and not rule.symmetric) or rule.kind in INTEGERS
    return ("codes", "scales", "zero_points") if has_zero_points else ("codes", "scales")


def quantized_shape(rule: WeightRule, role: Role, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of one of the tensors that a weight of a shape is stored as."""
    if rule.kind in INTEGERS:
        channels = (shape[channel_axis(rule, len(shape))],) if rule.per_channel else ()
        return tuple(shape) if role == "codes" else channels
    if rule.kind == "nf4":
        return (-(-prod(shape) // (2 if role == "codes" else rule.block_size)),)
    *outer, width = shape
    blocks = -(-width // rule.block_size)
    last = {"codes": (blocks, rule.block_size * rule.bits // 8), "scales": (blocks,)}
    return (*outer, *last.get(role, (-(-blocks * rule.bits // 8),)))


def conv_rule(rule: WeightRule) -> WeightRule:
    """The rule for a weight that convolutions read: the kernel of ConvInteger has one zero point."""
    return evolve(rule, per_channel=False) if rule.kind == DYNAMIC else rule


def channel_axis(rule: WeightRule, rank: int) -> int:
    """The axis of the output channels of integers: the first of kernels of the kind `"static"`, else the last."""
    return 0 if rule.kind == STATIC and rule.per_channel and rank > MATRIX_RANK else rank - 1


def has_signs(rule: WeightRule) -> bool:
    """Whether the codes of weights are int8; else uint8."""
    return rule.kind == STATIC or (rule.kind in INTEGERS and rule.signed)


def quantized(weight: QuantizedWeight) -> Callable[[Role, Any, Sequence[int]], Any]:
    """A function from a role, a dtype and a shape to a tensor of a weight; reading it raises InvalidSpec."""
    # Scales and zero points are computed with the codes, and are in memory until they are read themselves.
    computed: Parameters = deque(maxlen=1)
    key = memory_key(weight.tensor)

    def tensor(role: Role, dtype: Any, shape: Sequence[int]) -> Any:
        of_role = None if key is None else (key, weight.rule, role, dtype)
        return lazy_tensor(dtype, shape, partial(_role_chunks, weight, computed, role, dtype), of_role)

    return tensor


def _role_chunks(weight: QuantizedWeight, computed: Parameters, role: Role, dtype: Any) -> Iterator[Any]:
    """The elements of one of the tensors that a weight is stored as."""
    if role == "codes":
        gathered = {name: _empty_parameters(weight, name) for name in roles(weight.rule)[1:]}
        ends = dict.fromkeys(gathered, 0)
        for parts in _quantized_parts(weight):
            for name, array in gathered.items():
                start, ends[name] = ends[name], ends[name] + parts[name].size
                array[start : ends[name]] = parts[name].reshape(-1)
            yield parts["codes"]
        computed.append(gathered)
        return
    if not computed:
        deque(_role_chunks(weight, computed, "codes", dtype), maxlen=0)
    yield _in_dtype(weight, computed[0][role], dtype)
    if role == roles(weight.rule)[-1]:
        computed.clear()


def _empty_parameters(weight: QuantizedWeight, role: Role) -> Any:
    """An array for all scales or all zero points of a weight."""
    # Without it, small arrays would live until the end between large ones, whose memory could not be used again.
    rule, shape = weight.rule, tuple(weight.tensor.shape)
    if rule.kind not in INTEGERS:
        shape = (prod(shape) // shape[-1], shape[-1])
    integer = np.int8 if has_signs(rule) else np.uint8
    return np.empty(prod(quantized_shape(rule, role, shape)), np.float32 if role == "scales" else integer)


def _in_dtype(weight: QuantizedWeight, values: Any, dtype: Any) -> Any:
    with np.errstate(over="ignore"):
        converted = values.astype(dtype.numpy())
    if values.dtype == np.float32 and not np.isfinite(converted.astype(np.float32)).all():
        raise InvalidSpec(
            f"{weight.name} has blocks whose scale {dtype.name.lower()} cannot hold, the largest "
            f"{float(np.abs(values).max()):.3g}; leave it as it is: quantize(spec, where={weight.name!r}, kind='as is')"
        )
    return converted


def _quantized_parts(weight: QuantizedWeight) -> Iterator[Mapping[str, Any]]:
    """The codes, scales and zero points of some rows after the other."""
    rule = weight.rule
    if rule.kind in INTEGERS:
        yield from _integer_parts(weight)
        return
    every = _matrices(weight)
    # The nearest codes of matrices that follow each other are computed in one go.
    for index, matrices in enumerate((every,) if weight.inputs is None else ((each,) for each in every)):
        inputs = None if weight.inputs is None else weight.inputs(index)
        threads, size = (THREADS, BLOCK_BYTES) if inputs is None else (1, CALIBRATED_BYTES)
        size = sys.maxsize if inputs is not None and inputs.along_rows else size
        slices = (rows for matrix in matrices for rows in _row_slices(matrix, size, rule.block_size))
        with prefetched(partial(_parts_of_rows, weight, inputs), slices, threads + 1, threads) as parts:
            yield from parts


def dequantized(weight: QuantizedWeight) -> Any:
    """The float32 values that the codes of a weight in blocks stand for, in its shape."""
    rule, shape = weight.rule, tuple(weight.tensor.shape)
    return np.concatenate([_values(parts, rule, shape[-1]) for parts in _quantized_parts(weight)]).reshape(shape)


def _values(parts: Mapping[str, Any], rule: WeightRule, width: int) -> Any:
    """The values of the codes, scales and zero points of some rows in blocks, `[rows, width]`."""
    codes, scales = _unpacked(parts["codes"], rule.bits), parts["scales"].astype(np.float16).astype(np.float32)
    points = _unpacked(parts["zero_points"], rule.bits)[:, : scales.shape[1], None]
    zero = np.float32(2 ** (rule.bits - 1)) if rule.symmetric else points
    return ((codes - zero) * scales[..., None]).reshape(len(codes), -1)[:, :width]


def _unpacked(packed: Any, bits: int) -> Any:
    """The codes along the last axis of bytes that hold several, the first in the low bits, as float32."""
    places = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
    return places.reshape(*packed.shape[:-1], -1).astype(np.float32)


def _parts_of_rows(weight: QuantizedWeight, inputs: InputErrors | None, bits: Any) -> Mapping[str, Any]:
    """The codes, scales and zero points of rows, an array of bits."""
    import torch
    from onnx_ir.tensor_adapters import to_torch_dtype

    rule, dtype = weight.rule, to_torch_dtype(weight.tensor.dtype)
    own = np.array(bits, order="C")  # a copy: torch warns of a read-only array
    rows = _finite(weight, torch.from_numpy(own).view(dtype).to(torch.float32).numpy())
    if rule.kind == "nf4":
        return dict(zip(("codes", "scales"), nf4_codes(rows, rule.block_size), strict=True))
    nearest = partial(block_codes, rows, rule.bits, rule.block_size, symmetric=rule.symmetric)
    arrays = nearest() if inputs is None else calibrated_codes(rows, inputs, rule)
    return dict(zip(("codes", "scales", "zero_points"), arrays, strict=True))


def _matrices(weight: QuantizedWeight) -> Sequence[Any]:
    """The bits of the matrices of a weight; without inputs, of all as one where they follow each other."""
    bits, _ = element_view(weight.tensor)
    if bits.ndim == MATRIX_RANK or (weight.inputs is None and bits.flags.c_contiguous):
        return (bits.reshape(-1, bits.shape[-1]),)
    return tuple(each.reshape(-1, each.shape[-1]) for each in bits)


def _row_slices(matrix: Any, size: int, block: int) -> Iterator[Any]:
    """The rows of a matrix, about `size` bytes of float32 at once, a multiple of the block size."""
    step = max(1, size // (4 * matrix.shape[1]) // block) * block
    yield from (matrix[start : start + step] for start in range(0, len(matrix), step))


def _finite(weight: QuantizedWeight, rows: Any) -> Any:
    if not np.isfinite(rows).all():
        raise InvalidSpec(
            f"{weight.name} has elements that are NaN or infinite, so it cannot be quantized; leave it as it is: "
            f"quantize(spec, where={weight.name!r}, kind='as is')"
        )
    return rows


def _integer_parts(weight: QuantizedWeight) -> Iterator[Mapping[str, Any]]:
    """The codes of a weight with one scale for each column, or one for all; the scales come with the last codes."""
    scales, zero_points = _integer_parameters(weight)
    low, high = _integer_range(weight.rule)
    integer = np.int8 if has_signs(weight.rule) else np.uint8
    for values in _columns(weight):
        codes = np.clip((values / scales).round() + zero_points, low, high).astype(integer)
        codes = codes.T if channel_axis(weight.rule, len(weight.tensor.shape)) == 0 else codes
        yield {"codes": codes, "scales": scales[:0], "zero_points": zero_points[:0].astype(integer)}
    yield {"codes": np.empty(0, integer), "scales": scales, "zero_points": zero_points.astype(integer)}


def _integer_parameters(weight: QuantizedWeight) -> tuple[Any, Any]:
    """The scale and the zero point of each column, as ONNX Runtime's quantizer computes them."""
    least = greatest = np.zeros((), np.float32)
    for values in _columns(weight):
        least = np.minimum(least, _finite(weight, values).min(axis=0))
        greatest = np.maximum(greatest, values.max(axis=0))
    low, high = _integer_range(weight.rule)
    if has_signs(weight.rule):
        greatest = np.maximum(-least, greatest)
        least = -greatest
    scales = (greatest.astype(np.float64) - least) / (high - low)
    is_zero = scales < np.finfo(np.float32).tiny
    scales = np.where(is_zero, 1.0, scales)
    zero_points = np.where(is_zero, 0, np.round((low + high) / 2 if has_signs(weight.rule) else low - least / scales))
    return scales.astype(np.float32), zero_points.astype(np.float32)


def _integer_range(rule: WeightRule) -> tuple[int, int]:
    return (-127, 127) if has_signs(rule) else (0, 255)


def _columns(weight: QuantizedWeight) -> Iterator[Any]:
    """The elements of a float32 tensor as matrices; a column shares a scale: one for each channel, or one for all."""
    shape = tuple(weight.tensor.shape)
    if channel_axis(weight.rule, len(shape)) == 0:  # a kernel, which is small
        yield np.concatenate([*chunks(weight.tensor)]).view(np.float32).reshape(shape[0], -1).T
        return
    width = shape[-1] if weight.rule.per_channel else 1
    rest = np.empty(0, np.float32)
    for chunk in chunks(weight.tensor):
        values = np.concatenate([rest, chunk.view(np.float32)])
        end = len(values) // width * width
        rest = values[end:]
        yield values[:end].reshape(-1, width)
