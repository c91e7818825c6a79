"""Falcon's slopes without products in bfloat16: the same numbers in operations that ONNX Runtime has on every device.

The original is in transformers/models/falcon/modeling_falcon.py (5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def alibi_bias(attention_mask: Tensor, num_heads: int, dtype: Any) -> Tensor:
    """For build_alibi_tensor: a slope for each head times the place of each token, `batch*heads 1 length`.

    The original multiplies in bfloat16. A product of two such numbers is exact in float32, so it is rounded here once,
    as there.
    """
    import torch

    places = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    steep = torch.tensor(_alibi_slopes(num_heads), device=attention_mask.device)[:, None]
    products = (steep.bfloat16().float() * places.bfloat16().float()).bfloat16()
    return products.reshape(-1, 1, attention_mask.shape[1]).to(dtype)


def _alibi_slopes(heads: int) -> list[float]:
    """Powers that fall evenly from head to head; beyond a power of 2 heads, every other of the next finer ones."""
    even = 1 << (heads.bit_length() - 1)
    finer = [2.0 ** (-4.0 / even * power) for power in range(1, 2 * (heads - even) + 1, 2)]
    return [2.0 ** (-8.0 / even * power) for power in range(1, even + 1)] + finer
