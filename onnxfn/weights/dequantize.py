"""The arithmetic of quantized checkpoints: from the tensors of a quantized weight to its float values.

Each function returns the rows `start` to `stop` of a weight, in float32, in the layout of `torch.nn.Linear`: a row for
each output. `parts` are the stored tensors of the weight, by the ends of their names; `settings` is the
`quantization_config` of the checkpoint. Integers are multiplied by scales in float32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxfn.specs.dummies import Array

Parts = Mapping[str, Array]
Settings = Mapping[str, Any]

WORD_BITS = 32
"""The bits of the words in which GPTQ, AWQ and compressed-tensors pack values, the first value in the lowest bits."""

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where AWQ packs each of eight columns: column 1 is in the fifth four bits of a word."""

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The numbers of the type E2M1 of the OCP Microscaling Formats specification 1.0, section 5.3.3."""

EXPONENT_BIAS = 127
"""Of the type E8M0, in which a byte is a power of two: the same specification, section 5.4.1."""

INT8_LIMIT = 127

GPTQ_V2 = "gptq_v2"
"""The `checkpoint_format` of GPTQ that stores zero points as they are. Its first format stores them less one."""


def unpacked(words: Array, bits: int, axis: int) -> Array:
    """The integers that are packed along an axis of 32-bit words; they may lie across two words.

    >>> unpacked(np.array([[0x21, 0x43]], np.int32), 4, axis=0)[:3].tolist()
    [[1, 3], [2, 4], [0, 0]]
    """
    moved: Array = np.ascontiguousarray(np.moveaxis(words, axis, 0)).view(np.uint32)
    positions = np.arange(len(moved) * WORD_BITS // bits) * bits
    first, shifts = positions // WORD_BITS, (positions % WORD_BITS).reshape(-1, *[1] * (words.ndim - 1))
    values: Array = moved[first] >> shifts.astype(np.uint32)
    if WORD_BITS % bits:
        # The upper bits of a value may be the lowest of the next word; a shift by 32 bits would do nothing.
        rest = moved[np.minimum(first + 1, len(moved) - 1)].astype(np.uint64) << np.uint64(WORD_BITS)
        values = values | (rest >> shifts.astype(np.uint64))
    return np.moveaxis((values & (2**bits - 1)).astype(np.uint8), 0, axis)


def _packed_rows(words: Array, bits: int, axis: int, start: int, stop: int) -> Array:
    """The values `start` to `stop` of those that are packed along an axis; `start` is a multiple of 32."""
    part = [slice(None)] * words.ndim
    part[axis] = slice(start * bits // WORD_BITS, -(-stop * bits // WORD_BITS))
    return np.take(unpacked(words[tuple(part)], bits, axis), range(stop - start), axis)


def gptq_integers(parts: Parts, settings: Settings, start: int, stop: int) -> tuple[Array, Array, Array]:
    """The integers, zero points and scales of rows: arrays of columns by rows, and two of groups by rows.

    The packing of AutoGPTQ, `nn_modules/qlinear/qlinear_cuda_old.py`: `scales * (weight - zeros)`, where `zeros` is the
    stored zero point plus one, in so many bits.
    """
    bits = settings["bits"]
    values = unpacked(parts[".qweight"][:, start:stop], bits, 0)
    zeros = _packed_rows(parts[".qzeros"], bits, 1, start, stop)
    if settings.get("checkpoint_format") != GPTQ_V2:
        zeros = (zeros.astype(np.int16) + 1 & 2**bits - 1).astype(np.uint8)
    return values, zeros, parts[".scales"][:, start:stop]


def gptq_groups(parts: Parts, settings: Settings) -> Array:
    """The group of each column of a GPTQ weight."""
    columns = parts[".qweight"].shape[0] * WORD_BITS // settings["bits"]
    stored = parts.get(".g_idx")
    return _even_groups(columns, len(parts[".scales"])) if stored is None or not stored.size else stored


def gptq_rows(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of a GPTQ weight: `scale * (integer - zero point)` of its group."""
    groups = gptq_groups(parts, settings)
    return _scaled(*gptq_integers(parts, settings, start, stop), groups).T


def awq_integers(parts: Parts, settings: Settings, start: int, stop: int) -> tuple[Array, Array, Array]:
    """The integers, zero points and scales of rows: arrays of columns by rows, and two of groups by rows.

    The packing of AutoAWQ, `awq/utils/packing_utils.py`, `dequantize_gemm`: `(weight - zeros) * scales`.
    """
    bits, order = settings.get("bits", 4), _awq_columns(stop - start)
    values = _packed_rows(parts[".qweight"], bits, 1, start, stop)[:, order]
    zeros = _packed_rows(parts[".qzeros"], bits, 1, start, stop)[:, order]
    return values, zeros, parts[".scales"][:, start:stop]


def awq_rows(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of an AWQ weight: `(integer - zero point) * scale` of its group."""
    groups = _even_groups(len(parts[".qweight"]), len(parts[".scales"]))
    return _scaled(*awq_integers(parts, settings, start, stop), groups).T


def _awq_columns(count: int) -> Array:
    """For each value, its position in the order in which AWQ packs it."""
    order: Array = np.arange(0, count, len(AWQ_ORDER))[:, None] + np.array(AWQ_ORDER)
    return order.reshape(-1)


def packed_integers(parts: Parts, _: Settings, start: int, stop: int) -> tuple[Array, Array, Array]:
    """The integers, zero points and scales of rows of compressed-tensors: columns by rows, and two of groups by rows.

    The packing of its `compressors/quantized_compressors/pack_quantized.py`: values are stored plus half their range.
    """
    bits = packed_bits(parts)
    values = unpacked(parts[".weight_packed"][start:stop], bits, 1)[:, : int(parts[".weight_shape"][1])]
    scales = parts[".weight_scale"][start:stop]
    stored = parts.get(".weight_zero_point")
    half = np.full(scales.shape, 2 ** (bits - 1), np.uint8)
    zeros = half if stored is None else _packed_rows(stored, bits, 0, start, stop)
    return values.T, zeros.T, scales.T


def packed_bits(parts: Parts) -> int:
    """The bits of a value of compressed-tensors, from the number of words for a row."""
    columns, words = int(parts[".weight_shape"][1]), parts[".weight_packed"].shape[1]
    return next(bits for bits in (2, 4, 8) if -(-columns * bits // WORD_BITS) == words)


def packed_rows(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of a packed weight of compressed-tensors: `scale * (integer - zero point)` of its group."""
    groups = parts.get(".weight_g_idx")
    values, zeros, scales = packed_integers(parts, settings, start, stop)
    return _scaled(values, zeros, scales, _even_groups(len(values), len(scales)) if groups is None else groups).T


def _even_groups(columns: int, groups: int) -> Array:
    """The group of each column, if groups are equally long and follow one another."""
    return np.arange(columns) // -(-columns // groups)


def _scaled(values: Array, zeros: Array, scales: Array, groups: Array) -> Array:
    differences: Array = values.astype(np.float32) - zeros[groups].astype(np.float32)
    products: Array = differences * scales.astype(np.float32)[groups]
    return products


def block_rows(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of a weight with a scale for each block: `value * scale`, as transformers' `Fp8Dequantize` computes.

    A scale may also be for a row, or for the whole weight. Scales of one byte are powers of two.
    """
    values = parts[".weight"]
    stored = next(parts[end] for end in (".weight_scale_inv", ".weight_scale") if end in parts)
    scales = _power_of_two(stored) if stored.dtype == np.uint8 else stored.astype(np.float32)
    scales = scales.reshape(-1, 1) if scales.ndim < 2 else scales  # noqa: PLR2004 - rows and columns
    block = settings.get("weight_block_size") or [
        -(-size // count) for size, count in zip(values.shape, scales.shape, strict=True)
    ]
    rows, columns = np.arange(start, stop) // block[0], np.arange(values.shape[1]) // block[1]
    products: Array = values[start:stop].astype(np.float32) * scales[rows][:, columns]
    return products


def int8_rows(parts: Parts, _: Settings, start: int, stop: int) -> Array:
    """The rows of an 8-bit weight of bitsandbytes, `functional.int8_vectorwise_dequant`: `value * SCB / 127`."""
    scales = parts[".SCB"].reshape(-1, 1)[start:stop] * np.float32(1 / INT8_LIMIT)
    return parts[".weight"][start:stop].astype(np.float32) * scales


def bnb4_rows(parts: Parts, _: Settings, start: int, stop: int) -> Array:
    """The rows of a 4-bit weight of bitsandbytes, `functional.dequantize_4bit`: `code[value] * absmax` of its block.

    The first of two values is in the upper four bits. The result is rounded to the dtype that the weight had. If
    scales are quantized too, a scale is `nested_code[value] * nested_absmax + offset`.
    """
    state = bnb4_state(parts)
    columns = state["shape"][1]
    first, last = start * columns, stop * columns
    codes = parts[".weight"].reshape(-1)[first // 2 : -(-last // 2)]
    values = np.stack([codes >> 4, codes & 15], axis=-1).reshape(-1)[first % 2 :][: last - first]
    blocks = np.arange(first, last) // state["blocksize"]
    scales = _bnb4_scales(parts, state)[blocks]
    products: Array = parts[".weight.quant_map"].astype(np.float32)[values] * scales
    return products.astype(_numpy_dtype(state["dtype"])).astype(np.float32).reshape(-1, columns)


def bnb4_state(parts: Parts) -> Mapping[str, Any]:
    """The facts about a 4-bit weight that bitsandbytes stores as the bytes of a JSON text."""
    name = next(end for end in parts if ".quant_state." in end)
    state: Mapping[str, Any] = json.loads(parts[name].tobytes())
    return state


def _bnb4_scales(parts: Parts, state: Mapping[str, Any]) -> Array:
    absmax = parts[".weight.absmax"]
    if ".weight.nested_absmax" not in parts:
        return absmax.astype(np.float32)
    outer = parts[".weight.nested_absmax"][np.arange(absmax.size) // state["nested_blocksize"]]
    scales: Array = parts[".weight.nested_quant_map"][absmax] * outer + np.float32(state["nested_offset"])
    return scales


def _numpy_dtype(name: str) -> Any:
    from onnx_ir import DataType

    return DataType[{"float32": "FLOAT"}.get(name, name.upper())].numpy()


def mxfp4_rows(parts: Parts, _: Settings, start: int, stop: int) -> Array:
    """The experts `start` to `stop` of a stack in MXFP4, transposed as gpt-oss computes with them.

    As `convert_moe_packed_tensors` of transformers: the first of two values is in the lower four bits; a byte for 32
    values is the exponent of their scale.
    """
    blocks, exponents = parts["_blocks"][start:stop], parts["_scales"][start:stop]
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*exponents.shape, -1)
    values: Array = np.array(FP4_VALUES, np.float32)[codes] * _power_of_two(exponents)[..., None]
    return values.reshape(*exponents.shape[:2], -1).swapaxes(1, 2)


def _power_of_two(exponents: Array) -> Array:
    powers: Array = np.ldexp(np.float32(1), exponents.astype(np.int32) - EXPONENT_BIAS)
    return powers
