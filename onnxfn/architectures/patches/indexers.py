"""Indexers of sparse attention: which tokens a query attends to, without loops over texts and queries."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def selected_by_blocks(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor,
    cache: Any,
) -> Tensor:
    """For Qwen4ExpTextQSAIndexer.forward (modeling_qwen4_exp, transformers 5.23): `[batch, 1, queries, keys]`, bool.

    The visible tokens of a query form blocks; it attends to the blocks with the largest scores, and to the tokens
    after the last full block. The mask is causal: the blocks of a query are the first ones of its text, so the last
    query, which sees all tokens, knows them all.
    """
    visible = (attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0)[:, 0]
    queries, keys = _queries_and_keys(self, hidden_states, position_embeddings, cache)
    order = visible[:, -1].cumsum(-1) - 1
    full = visible.sum(-1, keepdim=True) // self.compress_ratio
    block_keys = _block_keys(self, keys, visible[:, -1], position_embeddings)
    scores = torch.relu(queries.float() @ block_keys.float().transpose(-1, -2)[:, None]).sum(2)
    is_chosen = _largest(scores / math.sqrt(self.index_head_dim), full, self.block_topk)
    block = (order.clamp(min=0) // self.compress_ratio)[:, None].expand(visible.shape)
    is_after = order[:, None] >= full * self.compress_ratio
    return (visible & (is_chosen.gather(-1, block) | is_after))[:, None]


def _queries_and_keys(
    self: Any, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor], cache: Any
) -> tuple[Tensor, Tensor]:
    """The rotated queries `[batch, length, heads, size]`, and the keys of past and present `[batch, keys, size]`."""
    length, size = hidden_states.shape[1], self.index_head_dim
    projected = self.index_qk_proj(hidden_states).unflatten(-1, (-1, size))
    queries = self.q_layernorm(projected[:, :, : self.index_n_heads])
    # One head of keys, as the original needs it.
    keys = projected[:, :, self.index_n_heads]
    if cache is not None:
        keys = cache.update_indexer(keys, self.layer_idx)
    cos, sin = (each[:, -length:] for each in position_embeddings)
    return _rotated(self, queries, cos, sin), keys


def _block_keys(self: Any, keys: Tensor, is_seen: Tensor, position_embeddings: tuple[Tensor, Tensor]) -> Tensor:
    """The mean key of each block of seen tokens, rotated as its first token, `[batch, blocks, size]`.

    Blocks that are not full hold unseen tokens too; no query chooses them.
    """
    length, ratio = is_seen.shape[-1], self.compress_ratio
    index = torch.arange(length, device=keys.device)
    seen_first = torch.where(is_seen, index, index + length).argsort(-1)
    blocks = torch.nn.functional.pad(seen_first, (0, -length % ratio)).unflatten(-1, (-1, ratio))
    rows = torch.arange(keys.shape[0], device=keys.device)[:, None, None]
    pooled = self.k_layernorm(keys[rows, blocks].float().mean(2).to(keys.dtype))
    cos, sin = (each[rows[..., 0], blocks[..., 0]] for each in position_embeddings)
    return _rotated(self, pooled[:, :, None], cos, sin)[:, :, 0]


def _largest(scores: Tensor, full: Tensor, count: int) -> Tensor:
    """Which blocks are full and among the `count` best of their query, `[batch, queries, blocks]`."""
    blocks = scores.shape[-1]
    is_full = torch.arange(blocks, device=scores.device) < full
    # As many blocks again, so that there are never fewer than are chosen.
    candidates = torch.nn.functional.pad(scores.masked_fill(~is_full, -torch.inf), (0, count), value=-torch.inf)
    chosen = torch.zeros_like(candidates, dtype=torch.bool).scatter(-1, candidates.topk(count).indices, value=True)
    return chosen[..., :blocks] & is_full


def _rotated(self: Any, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """States `[batch, length, heads, size]`, rotated by the function of the model's module."""
    import sys

    rotate = sys.modules[type(self).__module__].apply_rotary_pos_emb
    return rotate(states, cos=cos, sin=sin, unsqueeze_dim=2)
