"""The formats of quantized checkpoints: which tensors belong to a weight, its shape and its values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import field, frozen

from onnxfn.specs.converters import as_tuple
from onnxfn.weights.packed import dequantize, packed_integers
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
    """How a kind of quantized checkpoint stores a weight.

    Attributes:
        name: Its name in messages.
        method: The `quant_method` of the configuration.
        values: The end of the name of the tensor with the quantized values.
        needs: The ends of the names of the other tensors without which it is no weight of this format.
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


def _gptq_shape(parts: Parts, settings: Settings) -> tuple[int, ...]:
    words, rows = parts[".qweight"].shape
    return rows, words * packed_integers.WORD_BITS // settings["bits"]


def _awq_shape(parts: Parts, settings: Settings) -> tuple[int, ...]:
    columns, words = parts[".qweight"].shape
    return words * packed_integers.WORD_BITS // settings["bits"], columns


def _packed_shape(parts: Parts, _: Settings) -> tuple[int, ...]:
    rows, columns = parts[".weight_shape"].tolist()
    return rows, columns


def _weight_shape(parts: Parts, _: Settings) -> tuple[int, ...]:
    return parts[".weight"].shape


def _mxfp4_shape(parts: Parts, _: Settings) -> tuple[int, ...]:
    experts, rows, groups, codes = parts["_blocks"].shape
    return experts, groups * codes * 2, rows


FP8 = ("FLOAT8E4M3FN",)
INPUT_SCALES = (".activation_scale", ".input_scale", ".input_scale_ub")
"""The ends of the names of scales of activations, which a float weight does not have."""

FORMATS = (
    QuantizedFormat(
        name="GPTQ",
        method="gptq",
        values=".qweight",
        needs=(".qzeros", ".scales"),
        may_have=(".g_idx",),
        dtypes=("INT32",),
        shape=_gptq_shape,
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
        shape=_awq_shape,
        rows=partial(float_rows, AWQ),
        packing=AWQ,
        settings=(("bits", (4,)), ("version", ("gemm", "GEMM"))),
    ),
    QuantizedFormat(
        name="FP8",
        method="fp8",
        values=".weight",
        needs=(".weight_scale_inv",),
        may_have=INPUT_SCALES,
        dtypes=FP8,
        shape=_weight_shape,
        rows=dequantize.block_rows,
    ),
    QuantizedFormat(
        name="FP8",
        method="fbgemm_fp8",
        values=".weight",
        needs=(".weight_scale",),
        may_have=INPUT_SCALES,
        dtypes=FP8,
        shape=_weight_shape,
        rows=dequantize.block_rows,
    ),
    QuantizedFormat(
        name="MXFP4",
        method="mxfp4",
        values="_blocks",
        needs=("_scales",),
        dtypes=("UINT8",),
        weight="",
        shape=_mxfp4_shape,
        rows=dequantize.mxfp4_rows,
        exact_in="BFLOAT16",
    ),
    QuantizedFormat(
        name="compressed-tensors with packed integers",
        method="compressed-tensors",
        values=".weight_packed",
        needs=(".weight_scale", ".weight_shape"),
        may_have=(".weight_zero_point", ".weight_g_idx"),
        dtypes=("INT32",),
        shape=_packed_shape,
        rows=partial(float_rows, COMPRESSED_TENSORS),
        packing=COMPRESSED_TENSORS,
    ),
    QuantizedFormat(
        name="compressed-tensors with 8 bits",
        method="compressed-tensors",
        values=".weight",
        needs=(".weight_scale",),
        may_have=INPUT_SCALES,
        dtypes=(*FP8, "INT8"),
        shape=_weight_shape,
        rows=dequantize.block_rows,
    ),
)
"""The formats that onnxfn reads."""
