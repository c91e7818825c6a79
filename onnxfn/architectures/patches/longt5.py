"""LongT5's transient global attention in integer arithmetic (modeling_longt5, transformers 5.23).

The originals branch on the number of blocks. Here a text has one additional block, which is empty and masked. So a text
shorter than a block also has a block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def global_block_ids(attention_mask: Tensor, global_block_size: int) -> tuple[Tensor, Tensor]:
    """For _make_global_fixed_block_ids: block ids and segment ids of global blocks.

    Block ids `[batch, length]` hold the block of each token, -1 for padding. Tokens after the last full block belong to
    it. Segment ids `[batch, blocks]` are 1 for the blocks that hold a token.
    """
    positions = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    block_ids = torch.where(attention_mask != 0, positions // global_block_size, -1)
    block_ends = (positions % global_block_size == global_block_size - 1) & (block_ids >= 0)
    block_ids = torch.minimum(block_ids, block_ends.sum(dim=-1, keepdim=True) - 1)
    blocks = torch.arange(attention_mask.shape[1] // global_block_size + 1, device=attention_mask.device)
    segment_ids = blocks <= block_ids.amax(dim=-1, keepdim=True)
    return block_ids.to(torch.int32), segment_ids.to(torch.int32)


def global_aggregates(hidden_states: Tensor, block_ids: Tensor, global_seq_len: int) -> Tensor:
    """For _create_global_aggregates: the sum of the tokens of each block, `[batch, blocks, size]`."""
    blocks = torch.arange(global_seq_len, device=block_ids.device)
    one_hot = (block_ids[..., None] == blocks).to(hidden_states.dtype)
    return one_hot.transpose(1, 2) @ hidden_states


def side_bias(attention: Any, mask: Tensor, global_segment_ids: Tensor) -> Tensor:
    """For compute_side_bias: the attention bias of tokens to blocks, `[batch, heads, tokens, blocks]`.

    As in the original, padding attends to the blocks that hold no token. No token attends to the last block.
    """
    blocks = torch.arange(global_segment_ids.shape[-1], device=mask.device)
    distances = blocks - global_block_ids(mask, attention.global_block_size)[0][..., None].to(torch.int64)
    buckets = attention._relative_position_bucket(
        distances,
        bidirectional=not attention.is_decoder,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
    )
    relative_bias = attention.global_relative_attention_bias(buckets).permute(0, 3, 1, 2)
    attends = mask[:, None, :, None] == global_segment_ids[:, None, None]
    return (torch.where(attends, 0.0, -1e10) + relative_bias).masked_fill(blocks == blocks.shape[0] - 1, -torch.inf)
