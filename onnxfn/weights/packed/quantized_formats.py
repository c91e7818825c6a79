"""The formats of quantized checkpoints: which tensors belong to a weight, its shape and its values.

Values are float32 rows in the layout of `torch.nn.Linear`: a row for each output. `parts` are the stored tensors of the
weight, by the ends of their names; `settings` is the `quantization_config` of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.converters import as_tuple
from onnxfn.weights.packed import packed_integers
from onnxfn.weights.packed.packed_integers import (
    AWQ,
    COMPRESSED_TENSORS,
    GPTQ,
    Packing,
    Parts,
    Rows,
    Settings,
    float_rows,
)

Shape = Callable[[Parts, Settings], tuple[int, ...]]
"""From stored tensors, of which large ones are not read, and settings to the shape of the weight."""


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
        shape: The shape of the float weight.
        rows: The values of the float weight.
        packing: How integers are packed, if the weight is integers with scales and zero points.
        weight: The end of the name of the float weight.
        settings: Values that `quantization_config` must have, if it has the key.
        exact_in: The smallest float dtype that holds every value of the weight.
    """

    name: str
    method: str
    values: str
    needs: tuple[str, ...] = field(converter=as_tuple)
    may_have: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = field(converter=as_tuple)
    shape: Shape
    rows: Rows
    packing: Packing | None = None
    weight: str = ".weight"
    settings: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    exact_in: str = "FLOAT"


def _unpacked_shape(parts: Parts, settings: Settings, packed: int) -> tuple[int, ...]:
    """The shape of a matrix that is packed along an axis, and transposed."""
    sizes = [*parts[".qweight"].shape]
    sizes[packed] = sizes[packed] * packed_integers.WORD_BITS // settings["bits"]
    return sizes[1], sizes[0]


def _mxfp4_shape(parts: Parts, _: Settings) -> tuple[int, ...]:
    experts, rows, groups, codes = parts["_blocks"].shape
    return experts, groups * codes * 2, rows


FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The numbers of the type E2M1 of the OCP Microscaling Formats specification 1.0, section 5.3.3."""


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
        dtypes=("INT32",),
        shape=partial(_unpacked_shape, packed=0),
        rows=partial(float_rows, GPTQ),
        packing=GPTQ,
        settings=(("bits", (2, 3, 4, 8)), ("checkpoint_format", ("gptq", packed_integers.GPTQ_V2))),
    ),
    QuantizedFormat(
        name="AWQ",
        method="awq",
        values=".qweight",
        needs=(".qzeros", ".scales"),
        dtypes=("INT32",),
        shape=partial(_unpacked_shape, packed=1),
        rows=partial(float_rows, AWQ),
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
        dtypes=("INT32",),
        shape=lambda parts, _: tuple(parts[".weight_shape"].tolist()),
        rows=partial(float_rows, COMPRESSED_TENSORS),
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
