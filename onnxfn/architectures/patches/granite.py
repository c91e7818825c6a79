"""Granite's attention within blocks, without a branch on the length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def block_attention(
    attention: Any,
    hidden_states: Tensor,
    position_embeddings: Tensor,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """For GraniteSpeech5EncoderAttention.forward (transformers 5.23) with a mask `[batch, length]`.

    The original pads only if the block size does not divide the length, and slices the result then. Here the last block
    is always padded, by 0 if it is full.
    """
    length, block_size = hidden_states.shape[1], attention.context_size
    padding = (length + block_size - 1) // block_size * block_size - length
    padded = functional.pad(hidden_states, (0, 0, 0, padding))
    frames = torch.ones_like(hidden_states[..., 0], dtype=torch.bool) if attention_mask is None else attention_mask
    mask = functional.pad(frames, (0, padding)).reshape(-1, block_size)
    q, k, v = (
        projection(padded)
        .reshape(-1, block_size, attention.config.num_attention_heads, attention.head_dim)
        .transpose(1, 2)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    relative_positions = attention.rel_pos_emb(position_embeddings) * attention.scaling
    bias = (q.transpose(1, 2) @ relative_positions.transpose(1, 2)).transpose(1, 2)
    bias = bias.masked_fill(~mask[:, None, None, :], torch.finfo(bias.dtype).min)
    heads = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=attention.scaling)
    merged = heads.transpose(1, 2).reshape(hidden_states.shape[0], -1, heads.shape[1] * heads.shape[3])
    return attention.o_proj(merged.index_select(1, torch.arange(length))), None


def conformer_attention(attention: Any, hidden_states: Tensor, attention_dists: Tensor) -> Tensor:
    """For GraniteSpeechConformerAttention.forward (transformers 5.23): no frame attends to padding.

    The original pads and masks only if the block size does not divide the length.
    """
    length, block_size = hidden_states.shape[1], attention.context_size
    padding = (length + block_size - 1) // block_size * block_size - length
    padded = functional.pad(attention.pre_norm(hidden_states), (0, 0, 0, padding))
    is_frame = (torch.arange(padded.shape[1], device=padded.device) < length).reshape(-1, 1, 1, block_size)
    q, k, v = (
        states.reshape(padded.shape[0], -1, block_size, attention.num_heads, attention.dim_head).transpose(2, 3)
        for states in (attention.to_q(padded), *attention.to_kv(padded).chunk(2, dim=-1))
    )
    relative_positions = attention.rel_pos_emb(attention_dists) * attention.scale
    bias = (q.transpose(2, 3) @ relative_positions.transpose(1, 2)).transpose(2, 3)
    bias = bias.masked_fill(~is_frame, torch.finfo(bias.dtype).min)
    heads = functional.scaled_dot_product_attention(
        q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), attn_mask=bias.flatten(0, 1), scale=attention.scale
    )
    merged = heads.transpose(1, 2).reshape(hidden_states.shape[0], -1, heads.shape[1] * heads.shape[3])
    return attention.to_out(merged.index_select(1, torch.arange(length)))
