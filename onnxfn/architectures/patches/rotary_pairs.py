"""Rotary embeddings of adjacent pairs without complex numbers, which ONNX does not have.

The originals are in modeling_deepseek_v2 and modeling_llama4 (transformers 5.23). The results are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def cos_sin(self: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    """For RotaryEmbedding.forward, which returns complex numbers: cosines and sines, `[batch, length, pairs, 2]`."""
    from transformers.modeling_rope_utils import dynamic_rope_update

    values: Tensor = dynamic_rope_update(_cos_sin)(self, x, position_ids)
    return values


def rotated_heads_first(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of modeling_deepseek_v2: `[batch, heads, length, size]`."""
    return _rotated(xq, freqs_cis[:, None]), _rotated(xk, freqs_cis[:, None])


def rotated_length_first(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of modeling_llama4: `[batch, length, heads, size]`."""
    return _rotated(xq, freqs_cis[:, :, None]), _rotated(xk, freqs_cis[:, :, None])


def _cos_sin(self: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    angles = position_ids[..., None].float() * self.inv_freq.to(x.device).float()
    return torch.stack((angles.cos(), angles.sin()), dim=-1) * self.attention_scaling


def _rotated(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Each pair of `x`, as a complex number, times its complex exponential."""
    real, imaginary = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos_sin.unbind(-1)
    rotated = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1)
    return rotated.flatten(-2).type_as(x)
