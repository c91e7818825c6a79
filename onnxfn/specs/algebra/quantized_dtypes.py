"""The quantized dtypes that clients load by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from attrs import evolve, field

from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import FloatDtype, Target
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.quantization import MATRICES, WeightRule
from onnxfn.specs.record import record
from onnxfn.specs.results.measurements import Measurement, quality

QuantizedName = Literal[
    "q8", "int8", "uint8", "q4", "q4f16", "q4c", "q4cf16", "q4m", "bnb4", "int8-static", "uint8-static"
]


@record
class QuantizedDtype:
    """The meaning of a quantized dtype.

    Attributes:
        float_dtype: The dtype of the other weights, and of inputs and outputs.
        rules: The rules of the weights.
        better: The dtype of about the same size whose files are better; None if there is none.
        slow: What a result says of the speed of its files; empty for nothing.
    """

    float_dtype: FloatDtype
    rules: tuple[WeightRule, ...] = field(converter=as_tuple)
    better: QuantizedName | None = None
    slow: str = ""


FOUR_BITS = WeightRule(bits=4, read_by=MATRICES)
"""Matrices and tables of embeddings in blocks of 32 elements of 4 bits."""

EIGHT_BITS = WeightRule(bits=8, accuracy_level=4, read_by=MATRICES)
"""Matrices and tables of embeddings in blocks of 8 bits, multiplied with activations in 8 bits with a scale for each
block."""

EIGHT_BIT_TABLES = evolve(EIGHT_BITS, read_by=["Gather"])
"""Tables of embeddings, and the output layers that are tied to them, in blocks of 8 bits.

A single scale for a table makes rare tokens equal: the stock quantizer of ONNX Runtime does that. With accuracy level 0
the product of 8 bits is slow: see `WeightRule`.
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

_STATIC = WeightRule(bits=8, kind="static", read_by=["MatMul", "Conv"])
"""int8 activations with zero points of 0 suit TensorRT and ARM. On x86, ONNX Runtime fuses all convolutions only where
activations are uint8; without VNNI it adds two products in 16 bits, unless `session.x64quantprecision` is 1."""

EIGHT_BIT_NAMES = tuple(
    evolve(EIGHT_BITS, where=name, read_by=["MatMul"]) for name in ("*v_proj*", "*down_proj*", "*lm_head*")
)
"""The matrices in which errors change the distribution over tokens most; mixes of other tools have more bits there."""

SLOW = "bnb4 is slow to run: a token of SmolLM2 takes 88 ms, in q4 21, in q8 22, in float32 41"
"""By benchmarks/quantized.py on a CPU: ONNX Runtime's kernel of MatMulBnb4 makes floats of all codes in each run."""

QUANTIZED_DTYPES: Mapping[str, QuantizedDtype] = MappingProxyType(
    {
        "q8": QuantizedDtype("float32", (_CONVOLUTIONS, EIGHT_BITS)),
        "int8": QuantizedDtype("float32", (_INTEGERS, _CONVOLUTIONS, EIGHT_BIT_TABLES), better="q8"),
        "uint8": QuantizedDtype("float32", (_UNSIGNED, _CONVOLUTIONS, EIGHT_BIT_TABLES), better="q8"),
        "q4": QuantizedDtype("float32", (FOUR_BITS,), better="q4c"),
        "q4f16": QuantizedDtype("float16", (FOUR_BITS,), better="q4cf16"),
        "q4c": QuantizedDtype("float32", (evolve(FOUR_BITS, calibrated=True),)),
        "q4cf16": QuantizedDtype("float16", (evolve(FOUR_BITS, calibrated=True),)),
        "q4m": QuantizedDtype("float32", (evolve(FOUR_BITS, calibrated=True), *EIGHT_BIT_NAMES, EIGHT_BIT_TABLES)),
        "bnb4": QuantizedDtype(
            "float32",
            (WeightRule(bits=4, block_size=64, kind="nf4", read_by=["MatMul"]), EIGHT_BIT_TABLES),
            better="q4c",
            slow=SLOW,
        ),
        "int8-static": QuantizedDtype("float32", (_STATIC,), better="q8"),
        "uint8-static": QuantizedDtype("float32", (evolve(_STATIC, signed=False),), better="q8"),
    }
)
"""The name of a dtype -> what it stands for. transformers.js knows all but the calibrated ones: `q4c`, `q4cf16`, `q4m`,
and those in QDQ form, `int8-static` and `uint8-static`."""


def quality_remarks(plan: Plan, measurements: Sequence[Measurement]) -> list[str]:
    """A line for each slow dtype of a plan, and for each poor file: what was measured, and a dtype that is better."""
    lines = [*dict.fromkeys(row.slow for part in plan.parts if (row := _row(part.spec.target)) and row.slow)]
    for part in plan.parts:
        values = [each for each in measurements if each.part == part.name]
        if quality(values) == "poor":
            words = ", ".join(f"{each.measure} {each.value:.3g}" for each in values if quality([each]) == "poor")
            lines.append(f"{part.name}.onnx is poor ({words}): {_better(part.spec.target)}")
    return lines


def _row(target: Target) -> QuantizedDtype | None:
    weights = (target.float_dtype or "float32", target.quantization)
    return next((row for row in QUANTIZED_DTYPES.values() if (row.float_dtype, row.rules) == weights), None)


def _better(target: Target) -> str:
    """The dtype that is better than that of a poor file, and its size."""
    row = _row(target)
    name = None if row is None else row.better
    if name is None:
        return "q8 is better, and larger"
    needs = " (with the tokenizer)" if any(rule.calibrated for rule in QUANTIZED_DTYPES[name].rules) else ""
    return f"{name} is mostly better at about the same size{needs}"
