"""Granite's attention within blocks, without asking whether a length is of whole blocks."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def block_attention(
    attention: Any, hidden_states: Tensor, position_embeddings: Tensor, attention_mask: Tensor, **_: Any
) -> tuple[Tensor, None]:
    """For GraniteSpeech5EncoderAttention.forward (transformers 5.23), where a mask `[batch, length]` is given.

    The original pads where a length is of no whole blocks, and then cuts; here the last block is always filled up, with
    nothing where it is full.
    """
    import torch
    from torch.nn import functional

    length, size = hidden_states.shape[1], attention.context_size
    filling = (length + size - 1) // size * size - length
    states = functional.pad(hidden_states, (0, 0, 0, filling))
    seen = functional.pad(attention_mask, (0, filling)).reshape(-1, size)
    queries, keys, values = (
        project(states).reshape(-1, size, attention.config.num_attention_heads, attention.head_dim).transpose(1, 2)
        for project in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    apart = attention.rel_pos_emb(position_embeddings) * attention.scaling
    bias = (queries.transpose(1, 2) @ apart.transpose(1, 2)).transpose(1, 2)
    bias = bias.masked_fill(~seen[:, None, None, :], torch.finfo(bias.dtype).min)
    made = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias, scale=attention.scaling)
    joined = made.transpose(1, 2).reshape(hidden_states.shape[0], -1, made.shape[1] * made.shape[3])
    return attention.o_proj(joined.index_select(1, torch.arange(length))), None
