"""The quantized dtypes that clients load by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from attrs import evolve, field

from onnxfn.specs.algebra.spec import FloatDtype
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.quantization import MATRICES, WeightRule
from onnxfn.specs.record import record

QuantizedName = Literal["q8", "int8", "uint8", "q4", "q4f16", "q4c", "q4cf16", "q4m", "bnb4"]


@record
class QuantizedDtype:
    """The meaning of a quantized dtype.

    Attributes:
        float_dtype: The dtype of the other weights, and of inputs and outputs.
        rules: The rules of the weights.
    """

    float_dtype: FloatDtype
    rules: tuple[WeightRule, ...] = field(converter=as_tuple)


FOUR_BITS = WeightRule(bits=4, read_by=MATRICES)
"""Matrices and tables of embeddings in blocks of 32 elements of 4 bits."""

EIGHT_BIT_TABLES = WeightRule(bits=8, accuracy_level=4, read_by=["Gather"])
"""Tables of embeddings, and the output layers that are tied to them, in blocks of 8 bits.

A single scale for a table makes rare tokens equal: the stock quantizer of ONNX Runtime does that. With accuracy level 0
the product of 8 bits is slow: a token of SmolLM2 takes 373 ms, most of it for the output layer.
"""

_INTEGERS = WeightRule(bits=8, kind="dynamic", read_by=["MatMul"])
"""All activations that a matrix reads share a scale. This scale limits the quality, not the weights. Cosines of outputs
of MiniLM with PyTorch's: 0.9903; 0.9950 with the second matrices of its feed-forward layers in float32; 0.9947 with
these in blocks of 8 bits (level 4); 0.9996 with all matrices in blocks of 8 bits."""

_UNSIGNED = evolve(_INTEGERS, signed=False)
"""Codes in uint8. With codes in int8, ONNX Runtime 1.32 adds two products in 16 bits on x86 processors without VNNI.
They overflow: sums of 64 products of random codes, at most 159,553, were off by up to 36,059."""

_CONVOLUTIONS = WeightRule(bits=8, kind="dynamic", signed=False, per_channel=False, read_by=["Conv"])
"""ONNX Runtime in browsers has no ConvInteger for int8 weights, and nowhere with a scale for each channel."""

EIGHT_BIT_NAMES = tuple(
    WeightRule(name, 8, accuracy_level=4, read_by=["MatMul"]) for name in ("*v_proj*", "*down_proj*", "*lm_head*")
)
"""The matrices in which errors change the distribution over tokens most; mixes of other tools have more bits there."""

QUANTIZED_DTYPES: Mapping[str, QuantizedDtype] = MappingProxyType(
    {
        "q8": QuantizedDtype("float32", (_UNSIGNED, _CONVOLUTIONS, EIGHT_BIT_TABLES)),
        "int8": QuantizedDtype("float32", (_INTEGERS, _CONVOLUTIONS, EIGHT_BIT_TABLES)),
        "uint8": QuantizedDtype("float32", (_UNSIGNED, _CONVOLUTIONS, EIGHT_BIT_TABLES)),
        "q4": QuantizedDtype("float32", (FOUR_BITS,)),
        "q4f16": QuantizedDtype("float16", (FOUR_BITS,)),
        "q4c": QuantizedDtype("float32", (evolve(FOUR_BITS, calibrated=True),)),
        "q4cf16": QuantizedDtype("float16", (evolve(FOUR_BITS, calibrated=True),)),
        "q4m": QuantizedDtype("float32", (evolve(FOUR_BITS, calibrated=True), *EIGHT_BIT_NAMES, EIGHT_BIT_TABLES)),
        "bnb4": QuantizedDtype(
            "float32", (WeightRule(bits=4, block_size=64, kind="nf4", read_by=["MatMul"]), EIGHT_BIT_TABLES)
        ),
    }
)
"""The name of a dtype -> what it stands for. transformers.js has no calibrated ones: `q4c`, `q4cf16`, `q4m`."""
