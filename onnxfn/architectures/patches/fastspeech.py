"""FastSpeech 2 where lengths are what a text turns out to last.

The originals are in modeling_fastspeech2_conformer (transformers 5.23).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def length_regulated_states(encoded_embeddings: Tensor, duration_labels: Tensor, speaking_speed: float = 1.0) -> Tensor:
    """For length_regulator: each token `[batch, length, size]` as often as it lasts, which the original loops over.

    A batch in which nothing lasts has a frame a token.
    """
    import torch

    lasting = duration_labels
    if speaking_speed != 1.0:
        lasting = torch.round(lasting.float() * speaking_speed).long()
    lasting = torch.where(lasting.sum() == 0, torch.ones_like(lasting), lasting)
    ends = lasting.cumsum(dim=1)
    frames = ends[:, -1].max().item()
    torch._check(frames >= 1)
    places = torch.arange(frames, device=lasting.device)[:, None]
    spoken = (places < ends[:, None]) & (places >= (ends - lasting)[:, None])
    return spoken.to(encoded_embeddings.dtype) @ encoded_embeddings


def relative_positional_encoding(encoding: Any, feature_representation: Tensor) -> tuple[Tensor, Tensor]:
    """For FastSpeech2ConformerRelPositionalEncoding.forward: looked up, where the original cuts a table or grows it."""
    import torch

    length, center = feature_representation.shape[1], encoding.pos_enc.shape[1] // 2
    around = torch.arange(2 * length - 1, device=feature_representation.device) + (center - length + 1)
    return feature_representation * encoding.input_scale, encoding.pos_enc.index_select(1, around)


def shifted_relative_positions(_: Any, pos_tensor: Tensor) -> Tensor:
    """For FastSpeech2ConformerAttention.shift_relative_position_tensor: `[batch, heads, length, 2 * length - 1]`.

    To each place its distances to all places, looked up, where the original pads and reshapes.
    """
    import torch

    length = pos_tensor.shape[2]
    places = torch.arange(length, device=pos_tensor.device)
    apart = places - places[:, None] + (length - 1)
    return pos_tensor.gather(3, apart.expand(*pos_tensor.shape[:2], -1, -1))
