"""Granite's attention within blocks, without a branch on the length."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def block_attention(
    attention: Any, hidden_states: Tensor, position_embeddings: Tensor, attention_mask: Tensor, **_: Any
) -> tuple[Tensor, None]:
    """For GraniteSpeech5EncoderAttention.forward (transformers 5.23) with a mask `[batch, length]`.

    The original pads only if the block size does not divide the length, and slices the result then. Here the last block
    is always padded, by 0 if it is full.
    """
    import torch
    from torch.nn import functional

    length, block_size = hidden_states.shape[1], attention.context_size
    padding = (length + block_size - 1) // block_size * block_size - length
    padded = functional.pad(hidden_states, (0, 0, 0, padding))
    mask = functional.pad(attention_mask, (0, padding)).reshape(-1, block_size)
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
