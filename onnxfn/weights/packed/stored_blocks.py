"""Quantized weights of a checkpoint as the tensors of MatMulNBits: the same integers in another order, bit for bit."""

from collections.abc import Iterator
from functools import partial
from math import gcd
from typing import Any

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.quantization import WeightRule
from onnxfn.weights.calibrated import packed_codes
from onnxfn.weights.chunks import lazy_tensor
from onnxfn.weights.packed.quantized_checkpoint import QuantizedWeight, row_ranges
from onnxfn.weights.packed.quantized_formats import Packing, column_groups
from onnxfn.weights.quantized import Role, quantized_shape

ROLES: tuple[Role, ...] = ("codes", "scales", "zero_points")
"""The tensors that MatMulNBits reads besides its first input, in their order."""

ATTRIBUTE = "onnxfn_stored"
"""The attribute of a dequantized torch parameter that holds its quantized weight."""

BITS, SMALLEST_BLOCK, LARGEST_BLOCK = (4, 8), 16, 256
"""The kernels of MatMulNBits. A block is a power of two; a longer group is several blocks of one scale."""


def no_blocks_reason(weight: QuantizedWeight) -> str:
    """Why MatMulNBits cannot hold the values of a weight; an empty text if it can."""
    if weight.format.packing is None:
        return "its values are not integers with a scale and a zero point for each group of columns"
    bits, groups = bits_of(weight), column_groups(weight.parts, weight.shape[1], _first_scales(weight).size)
    if bits not in BITS:
        return f"its integers have {bits} bits, and those of MatMulNBits 4 or 8"
    if not np.array_equal(groups, column_groups({}, len(groups), int(groups.max()) + 1)):
        return "its groups are not columns that follow one another (desc_act)"
    size = block_size(weight)
    return "" if size >= SMALLEST_BLOCK else f"its blocks would have {size} columns, those of MatMulNBits at least 16"


def block_size(weight: QuantizedWeight) -> int:
    """The columns of a block: the largest power of two that divides a group, at most `LARGEST_BLOCK`."""
    return gcd(weight.shape[1] // _first_scales(weight).size, LARGEST_BLOCK)


def scale_dtype(weight: QuantizedWeight) -> Any:
    """The numpy dtype of the scales of a weight."""
    return _first_scales(weight).dtype


def bits_of(weight: QuantizedWeight) -> int:
    """The bits of the integers of a weight."""
    return _packing(weight).bits(weight.parts, weight.settings)


def blocks_tensor(weight: QuantizedWeight, role: Role, dtype: Any) -> Any:
    """A lazy tensor that MatMulNBits reads, computed some rows at a time; `dtype` is that of the scales."""
    import onnx_ir

    kind = dtype if role == "scales" else onnx_ir.DataType.UINT8
    shape = quantized_shape(WeightRule(bits=bits_of(weight), block_size=block_size(weight)), role, weight.shape)
    return lazy_tensor(kind, shape, partial(_chunks, weight, role, kind.numpy()), (id(weight), role))


def stored_weight(tensor: Any) -> QuantizedWeight | None:
    """The quantized weight of a dequantized torch parameter, if a graph keeps it; else None."""
    weight: QuantizedWeight | None = getattr(tensor, ATTRIBUTE, None)
    return weight


def _packing(weight: QuantizedWeight) -> Packing:
    assert weight.format.packing is not None
    return weight.format.packing


def _first_scales(weight: QuantizedWeight) -> Array:
    """The scales of the first row of a weight: one for each group of columns."""
    return _packing(weight).scales(weight.parts, weight.settings, 0, 1)


def _chunks(weight: QuantizedWeight, role: Role, dtype: Any) -> Iterator[Array]:
    """The elements of a tensor for MatMulNBits, some rows at a time."""
    packing, bits = _packing(weight), bits_of(weight)
    repeats = weight.shape[1] // _first_scales(weight).size // block_size(weight)
    for start, stop in row_ranges(weight.shape):
        rows = (weight.parts, weight.settings, start, stop)
        if role == "codes":
            yield packed_codes(packing.values(*rows), bits)
        elif role == "scales":
            yield np.repeat(packing.scales(*rows).astype(dtype), repeats, axis=1)
        else:
            yield packed_codes(np.repeat(packing.zeros(*rows), repeats, axis=1), bits)
