"""Funnel without lists of positions: the same numbers in operations that torch.export can follow.

The originals are in transformers/models/funnel/modeling_funnel.py (5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def position_embeds(self: Any, seq_len: int, dtype: Any, device: Any) -> Any:
    """For FunnelAttentionStructure.get_position_embeds, which lists every position in Python and so fixes the length.

    In each block the positions are evenly spaced, so their relative positions are an even descent that the number of
    positions alone determines. There is no dropout: nothing is trained here.
    """
    import torch

    def waves(positions: Tensor) -> tuple[Tensor, Tensor]:
        half = self.config.d_model // 2
        frequencies = 1 / (10000 ** (torch.arange(half, device=device).to(dtype) / half))
        angles = positions.to(dtype)[:, None] * frequencies
        return angles.sin(), angles.cos()

    def descent(top: int, step: int, count: int) -> Tensor:
        return torch.cat(waves(top - step * torch.arange(count, device=device)), dim=-1)

    if self.config.attention_type == "factorized":
        return _factors(*waves(torch.arange(seq_len, device=device)))
    embeds = [[descent(seq_len, 1, 2 * seq_len), None]]
    for block in range(1, self.config.num_blocks):
        step, pooled = 2 ** (block - 1), _pooled(self.config, seq_len)
        shift = -step if self.config.separate_cls else 0
        pooling = descent(shift + 2 * pooled * step, step, 2 * pooled + seq_len)
        embeds.append([descent(2 * pooled * step, 2 * step, 2 * pooled), pooling])
        seq_len = pooled
    return embeds


def _factors(sines: Tensor, cosines: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The matrices phi, pi, psi and omega of the paper's appendix A.2.2, as the original has them."""
    import torch

    pairs = ((sines, sines), (cosines, cosines), (cosines, sines), (-sines, cosines))
    phi, pi, psi, omega = (torch.cat(pair, dim=-1) for pair in pairs)
    return phi, pi, psi, omega


def _pooled(config: Any, length: int) -> int:
    """How many of so many positions stride_pool_pos keeps."""
    return length // 2 + 1 if config.separate_cls and not config.truncate_seq else (length + 1) // 2
