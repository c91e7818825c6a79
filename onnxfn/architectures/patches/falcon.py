"""Falcon's ALiBi without products in bfloat16 (modeling_falcon, transformers 5.23). The results are the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def alibi_bias(attention_mask: Tensor, num_heads: int, dtype: Any) -> Tensor:
    """For build_alibi_tensor: the slope of each head times the position of each token, `[batch*heads, 1, length]`.

    The original multiplies in bfloat16, which ONNX Runtime does not support on every device. A product of two bfloat16
    numbers is exact in float32, so it is rounded once here, as in the original.
    """
    positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    slopes = torch.tensor(_alibi_slopes(num_heads), device=attention_mask.device)[:, None]
    products = (slopes.bfloat16().float() * positions.bfloat16().float()).bfloat16()
    return products.reshape(-1, 1, attention_mask.shape[1]).to(dtype)


def _alibi_slopes(num_heads: int) -> list[float]:
    """A geometric sequence for the largest power of 2 heads. Further heads have every other slope of the next power."""
    power_of_2 = 1 << (num_heads.bit_length() - 1)
    further = [2.0 ** (-4.0 / power_of_2 * power) for power in range(1, 2 * (num_heads - power_of_2) + 1, 2)]
    return [2.0 ** (-8.0 / power_of_2 * power) for power in range(1, power_of_2 + 1)] + further
