"""The arithmetic of quantized checkpoints: from the tensors of a quantized weight to its float values.

Each function returns the rows `start` to `stop` of a weight, in float32, in the layout of `torch.nn.Linear`: a row for
each output. `parts` are the stored tensors of the weight, by the ends of their names; `settings` is the
`quantization_config` of the checkpoint. Integers are multiplied by scales in float32.
"""

from __future__ import annotations

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.packed.packed_integers import Parts, Settings

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The numbers of the type E2M1 of the OCP Microscaling Formats specification 1.0, section 5.3.3."""

EXPONENT_BIAS = 127
"""Of the type E8M0, in which a byte is a power of two: the same specification, section 5.4.1."""


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
    powers: Array = np.ldexp(np.float32(1), exponents.astype(np.int32) - EXPONENT_BIAS)
    return powers
