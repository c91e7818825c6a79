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

from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.packed.packed_integers import Parts, Settings

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The numbers of the type E2M1 of the OCP Microscaling Formats specification 1.0, section 5.3.3."""

EXPONENT_BIAS = 127
"""Of the type E8M0, in which a byte is a power of two: the same specification, section 5.4.1."""

INT8_LIMIT = 127


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
    products: Array = parts[".weight"][start:stop].astype(np.float32) * parts[".SCB"].reshape(-1, 1)[start:stop]
    return products * np.float32(1 / INT8_LIMIT)


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
