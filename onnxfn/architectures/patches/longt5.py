"""LongT5's blocks that every token sees, counted in whole numbers; the originals branch on how many there are.

The originals are in modeling_longt5 (transformers 5.23). A text has one block more here, which is empty and which
nobody sees, so that a text shorter than a block has one too.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def global_block_ids(attention_mask: Tensor, global_block_size: int) -> tuple[Tensor, Tensor]:
    """The block of each token, -1 for padding, and which of the blocks of a text have a token: `[batch, blocks]`.

    For _make_global_fixed_block_ids. The tokens after the last whole block belong to it.
    """
    import torch

    places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    blocks = torch.where(attention_mask != 0, places // global_block_size, -1)
    ends = (places % global_block_size == global_block_size - 1) & (blocks >= 0)
    blocks = torch.minimum(blocks, ends.sum(dim=-1, keepdim=True) - 1)
    every = torch.arange(attention_mask.shape[1] // global_block_size + 1, device=attention_mask.device)
    held = every <= blocks.amax(dim=-1, keepdim=True)
    return blocks.to(torch.int32), held.to(torch.int32)


def global_aggregates(hidden_states: Tensor, block_ids: Tensor, global_seq_len: int) -> Tensor:
    """The tokens of each block added up, `[batch, blocks, size]`: for _create_global_aggregates."""
    import torch

    blocks = torch.arange(global_seq_len, device=block_ids.device)
    belongs = (block_ids[..., None] == blocks).to(hidden_states.dtype)
    return belongs.transpose(1, 2) @ hidden_states


def side_bias(attention: Any, mask: Tensor, global_segment_ids: Tensor) -> Tensor:
    """How much each token sees of each block, `[batch, heads, tokens, blocks]`: for compute_side_bias.

    Padding sees the blocks that have no token, and nobody the last.
    """
    import torch

    every = torch.arange(global_segment_ids.shape[-1], device=mask.device)
    apart = every - global_block_ids(mask, attention.global_block_size)[0][..., None].to(torch.int64)
    buckets = attention._relative_position_bucket(
        apart,
        bidirectional=not attention.is_decoder,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
    )
    learned = attention.global_relative_attention_bias(buckets).permute(0, 3, 1, 2)
    seen = mask[:, None, :, None] == global_segment_ids[:, None, None]
    return (torch.where(seen, 0.0, -1e10) + learned).masked_fill(every == every.shape[0] - 1, -torch.inf)
