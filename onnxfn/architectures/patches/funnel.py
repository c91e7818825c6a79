"""Funnel without Python lists of positions (modeling_funnel, transformers 5.23). The results are the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def position_embeds(self: Any, seq_len: int, dtype: Any, device: Any) -> Any:
    """For FunnelAttentionStructure.get_position_embeds, which lists all positions in Python and so fixes the length.

    In each block, positions are evenly spaced. So the relative positions are a descending arithmetic sequence that
    depends on the number of positions only. Dropout is omitted: models are exported in evaluation mode.
    """

    def sin_cos(positions: Tensor) -> tuple[Tensor, Tensor]:
        half = self.config.d_model // 2
        frequencies = 1 / (10000 ** (torch.arange(half, device=device).to(dtype) / half))
        angles = positions.to(dtype)[:, None] * frequencies
        return angles.sin(), angles.cos()

    def descending_embeds(start: int, step: int, count: int) -> Tensor:
        return torch.cat(sin_cos(start - step * torch.arange(count, device=device)), dim=-1)

    if self.config.attention_type == "factorized":
        return _factors(*sin_cos(torch.arange(seq_len, device=device)))
    embeds = [[descending_embeds(seq_len, 1, 2 * seq_len), None]]
    for block in range(1, self.config.num_blocks):
        step, pooled_length = 2 ** (block - 1), _pooled_length(self.config, seq_len)
        shift = -step if self.config.separate_cls else 0
        pooling = descending_embeds(shift + 2 * pooled_length * step, step, 2 * pooled_length + seq_len)
        embeds.append([descending_embeds(2 * pooled_length * step, 2 * step, 2 * pooled_length), pooling])
        seq_len = pooled_length
    return embeds


def _factors(sin: Tensor, cos: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The matrices phi, pi, psi and omega of the paper's appendix A.2.2, as in the original."""
    pairs = ((sin, sin), (cos, cos), (cos, sin), (-sin, cos))
    phi, pi, psi, omega = (torch.cat(pair, dim=-1) for pair in pairs)
    return phi, pi, psi, omega


def _pooled_length(config: Any, length: int) -> int:
    """The number of positions that stride_pool_pos returns for `length` positions."""
    return length // 2 + 1 if config.separate_cls and not config.truncate_seq else (length + 1) // 2
