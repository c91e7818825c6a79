"""The formats of quantized checkpoints: which tensors belong to a weight, its shape and its values.

Values are float32 rows in the layout of `torch.nn.Linear`: a row for each output. `parts` are the stored tensors of the
weight, by the ends of their names; `settings` is the `quantization_config` of the checkpoint.

GPTQ, AWQ and compressed-tensors pack integers into 32-bit words, with a scale and a zero point for each group. A value
of a weight is `scale * (integer - zero point)` of its group of columns, in float32: that is exact for scales of 16 bits
and integers of 8 bits.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from attrs import Factory, evolve, field, frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import LoadFailed, listed

Parts = Mapping[str, Array]
"""The stored tensors of a weight, by the ends of their names."""

Settings = Mapping[str, Any]
"""The `quantization_config` of a checkpoint."""

Rows = Callable[[Parts, Settings, int, int], Array]
"""From stored tensors and settings to the rows between two indices; a row is an output of a linear layer."""

WORD_BITS = 32

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""The places of eight rows in a word of AWQ: row 1 is in the fifth four bits."""

KNOWN_BITS = (2, 4, 8)
"""The bits of an integer of compressed-tensors that `unpacked` reads: a word is full of them."""

GPTQ_V2 = "gptq_v2"
"""The `checkpoint_format` of GPTQ that stores zero points unchanged. Its first format stores them less one."""


@frozen
class Packing:
    """The storage of integers, zero points and scales (of rows by groups) in a format, and the bits of an integer."""

    bits: Callable[[Parts, Settings], int]
    values: Rows
    zeros: Rows
    scales: Rows


def unpacked(words: Array, bits: int, axis: int) -> Array:
    """The integers that are packed along an axis of 32-bit words, the first in the lowest bits.

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


def unpacked_part(words: Array, bits: int, axis: int, start: int, stop: int) -> Array:
    """The values `start` to `stop` of those that are packed along an axis; `start` is a multiple of 32."""
    part = [slice(None)] * words.ndim
    part[axis] = slice(start * bits // WORD_BITS, -(-stop * bits // WORD_BITS))
    return np.take(unpacked(words[tuple(part)], bits, axis), range(stop - start), axis)


def column_groups(parts: Parts, columns: int, groups: int) -> Array:
    """The group of each column: as stored, or, if none are, in equally long groups that follow one another."""
    stored = parts.get(".g_idx", parts.get(".weight_g_idx"))
    return np.arange(columns) // -(-columns // groups) if stored is None or not stored.size else stored


def float_rows(packing: Packing, parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of a weight, in float32."""
    zeros = packing.zeros(parts, settings, start, stop).astype(np.float32)
    scales = packing.scales(parts, settings, start, stop).astype(np.float32)
    products: Array = packing.values(parts, settings, start, stop).astype(np.float32)
    groups = column_groups(parts, products.shape[1], scales.shape[1])
    products -= zeros[:, groups]
    products *= scales[:, groups]
    return products


def _gptq_zeros(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The stored zero points; in the first format plus one, modulo `2**bits` (AutoGPTQ, `qlinear_cuda_old.py`)."""
    zeros = unpacked_part(parts[".qzeros"], settings["bits"], 1, start, stop).T
    if settings.get("checkpoint_format") == GPTQ_V2:
        return zeros
    plus_one: Array = zeros.astype(np.int16) + 1 & 2 ** settings["bits"] - 1
    return plus_one.astype(np.uint8)


GPTQ = Packing(
    bits=lambda _, settings: int(settings["bits"]),
    values=lambda parts, settings, start, stop: unpacked(parts[".qweight"][:, start:stop], settings["bits"], 0).T,
    zeros=_gptq_zeros,
    scales=lambda parts, _, start, stop: parts[".scales"][:, start:stop].T,
)


def _awq_rows(words: Array, start: int, stop: int) -> Array:
    """Rows that are packed along the second axis, as AutoAWQ orders them: `awq/utils/packing_utils.py`."""
    order: Array = np.arange(0, stop - start, len(AWQ_ORDER))[:, None] + np.array(AWQ_ORDER)
    return unpacked_part(words, 4, 1, start, stop).T[order.reshape(-1)]


AWQ = Packing(
    bits=lambda *_: 4,
    values=lambda parts, _, start, stop: _awq_rows(parts[".qweight"], start, stop),
    zeros=lambda parts, _, start, stop: _awq_rows(parts[".qzeros"], start, stop),
    scales=lambda parts, _, start, stop: parts[".scales"][:, start:stop].T,
)


def _packed_bits(parts: Parts, settings: Settings) -> int:
    """The bits of an integer of compressed-tensors: stated by the settings, or any that give as many words a row."""
    columns, words = int(parts[".weight_shape"][1]), parts[".weight_packed"].shape[1]
    groups = settings.get("config_groups")
    rows = groups.values() if isinstance(groups, Mapping) else ()
    weights = (each.get("weights") for each in rows if isinstance(each, Mapping))
    every = (each.get("num_bits") for each in weights if isinstance(each, Mapping))
    stated = dict.fromkeys(bits for bits in every if isinstance(bits, int) and 0 < bits <= WORD_BITS)
    widths = [bits for bits in stated or KNOWN_BITS if -(-columns // (WORD_BITS // bits)) == words]
    if not widths or not set(KNOWN_BITS).issuperset(widths):
        of_settings = f", and the settings state num_bits={listed(map(str, stated))}" if stated else ""
        raise LoadFailed(
            f"{columns} packed integers lie in {words} words of {WORD_BITS} bits{of_settings}; known are "
            f"{listed(map(str, KNOWN_BITS))} bits; export the checkpoint that it was made from"
        )
    return widths[0]


def _packed_zeros(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The zero points, by default half of the range (compressed-tensors, `pack_quantized.py`)."""
    bits, stored = _packed_bits(parts, settings), parts.get(".weight_zero_point")
    if stored is None:
        return np.full(parts[".weight_scale"][start:stop].shape, 2 ** (bits - 1), np.uint8)
    return unpacked_part(stored, bits, 0, start, stop)


COMPRESSED_TENSORS = Packing(
    bits=_packed_bits,
    values=lambda parts, settings, start, stop: unpacked(
        parts[".weight_packed"][start:stop], _packed_bits(parts, settings), 1
    )[:, : int(parts[".weight_shape"][1])],
    zeros=_packed_zeros,
    scales=lambda parts, _, start, stop: parts[".weight_scale"][start:stop],
)


@frozen(kw_only=True)
class QuantizedFormat:
    """The storage of a weight in a kind of quantized checkpoint.

    Attributes:
        name: Its name in messages.
        method: The `quant_method` of the configuration.
        values: The end of the name of the tensor with the quantized values.
        needs: The ends of the names of the other tensors that a weight of this format needs.
        may_have: Those that there may be.
        dtypes: The dtypes that the quantized values may have.
        shape: The shape of the float weight, for which no large tensor is read.
        packing: How integers are packed, if the weight is integers with scales and zero points.
        rows: The values of the float weight; those of `packing` unless given.
        weight: The end of the name of the float weight.
        settings: Values that `quantization_config` must have, if it has the key.
        exact_in: The smallest float dtype that holds every value of the weight.
    """

    name: str
    method: str
    values: str
    needs: tuple[str, ...] = field(converter=as_tuple)
    may_have: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = field(default=("INT32",), converter=as_tuple)
    shape: Callable[[Parts, Settings], tuple[int, ...]]
    packing: Packing | None = None
    rows: Rows = field(default=Factory(lambda own: partial(float_rows, own.packing), takes_self=True))
    weight: str = ".weight"
    settings: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    exact_in: str = "FLOAT"


def _unpacked_shape(parts: Parts, settings: Settings, packed: int) -> tuple[int, ...]:
    """The shape of a matrix that is packed along an axis, and transposed."""
    sizes = [*parts[".qweight"].shape]
    sizes[packed] = sizes[packed] * WORD_BITS // settings["bits"]
    return sizes[1], sizes[0]


def _mxfp4_shape(parts: Parts, _: Settings) -> tuple[int, ...]:
    experts, rows, groups, codes = parts["_blocks"].shape
    return experts, groups * codes * 2, rows


def block_rows(parts: Parts, settings: Settings, start: int, stop: int) -> Array:
    """The rows of a weight with a scale for each block, row or all: `value * scale`, as in `Fp8Dequantize`."""
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


def mxfp4_rows(parts: Parts, _: Settings, start: int, stop: int) -> Array:
    """The experts `start` to `stop` of a stack in MXFP4, transposed, as transformers' `convert_moe_packed_tensors`."""
    blocks, exponents = parts["_blocks"][start:stop], parts["_scales"][start:stop]
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*exponents.shape, -1)
    # The numbers of the type E2M1 of the OCP Microscaling Formats specification 1.0, section 5.3.3.
    numbers = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
    values: Array = np.array(numbers, np.float32)[codes] * _power_of_two(exponents)[..., None]
    return values.reshape(*exponents.shape[:2], -1).swapaxes(1, 2)


def _power_of_two(exponents: Array) -> Array:
    powers: Array = np.ldexp(np.float32(1), exponents.astype(np.int32) - 127)
    return powers


FP8_BLOCKS = QuantizedFormat(
    name="FP8",
    method="fp8",
    values=".weight",
    needs=(".weight_scale_inv",),
    # Scales of activations, which a float weight does not have.
    may_have=(".activation_scale", ".input_scale", ".input_scale_ub"),
    dtypes=("FLOAT8E4M3FN",),
    shape=lambda parts, _: parts[".weight"].shape,
    rows=block_rows,
)

FORMATS = (
    QuantizedFormat(
        name="GPTQ",
        method="gptq",
        values=".qweight",
        needs=(".qzeros", ".scales"),
        may_have=(".g_idx",),
        shape=partial(_unpacked_shape, packed=0),
        packing=GPTQ,
        settings=(("bits", (2, 3, 4, 8)), ("checkpoint_format", ("gptq", GPTQ_V2))),
    ),
    QuantizedFormat(
        name="AWQ",
        method="awq",
        values=".qweight",
        needs=(".qzeros", ".scales"),
        shape=partial(_unpacked_shape, packed=1),
        packing=AWQ,
        settings=(("bits", (4,)), ("version", ("gemm", "GEMM"))),
    ),
    FP8_BLOCKS,
    evolve(FP8_BLOCKS, method="fbgemm_fp8", needs=(".weight_scale",)),
    QuantizedFormat(
        name="MXFP4",
        method="mxfp4",
        values="_blocks",
        needs=("_scales",),
        dtypes=("UINT8",),
        weight="",
        shape=_mxfp4_shape,
        rows=mxfp4_rows,
        exact_in="BFLOAT16",
    ),
    QuantizedFormat(
        name="compressed-tensors with packed integers",
        method="compressed-tensors",
        values=".weight_packed",
        needs=(".weight_scale", ".weight_shape"),
        may_have=(".weight_zero_point", ".weight_g_idx"),
        shape=lambda parts, _: tuple(parts[".weight_shape"].tolist()),
        packing=COMPRESSED_TENSORS,
    ),
    evolve(
        FP8_BLOCKS,
        name="compressed-tensors with 8 bits",
        method="compressed-tensors",
        needs=(".weight_scale",),
        dtypes=(*FP8_BLOCKS.dtypes, "INT8"),
    ),
)
"""The formats that onnxfn reads."""
