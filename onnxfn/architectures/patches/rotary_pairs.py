"""Rotations of pairs without complex numbers: the same numbers in operations that ONNX has.

The originals are in transformers/models/deepseek_v2/modeling_deepseek_v2.py and llama4/modeling_llama4.py (5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def cos_sin(self: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    """For RotaryEmbedding.forward, which gives complex numbers: their two parts, `batch length pairs 2`."""
    from transformers.modeling_rope_utils import dynamic_rope_update

    given: Tensor = dynamic_rope_update(_angles)(self, x, position_ids)
    return given


def rotated_heads_first(query: Tensor, key: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of deepseek_v2: `batch heads length size`."""
    return _turned(query, turns[:, None]), _turned(key, turns[:, None])


def rotated_length_first(query: Tensor, key: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of llama4: `batch length heads size`."""
    return _turned(query, turns[:, :, None]), _turned(key, turns[:, :, None])


def _angles(self: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    import torch

    turns = position_ids[..., None].float() * self.inv_freq.to(x.device).float()
    return torch.stack((turns.cos(), turns.sin()), dim=-1) * self.attention_scaling


def _turned(pairs: Tensor, turns: Tensor) -> Tensor:
    """Each pair, as a complex number, times its turn."""
    import torch

    real, imaginary = pairs.float().unflatten(-1, (-1, 2)).unbind(-1)
    cosine, sine = turns.unbind(-1)
    turned = torch.stack((real * cosine - imaginary * sine, real * sine + imaginary * cosine), dim=-1)
    return turned.flatten(-2).type_as(pairs)
