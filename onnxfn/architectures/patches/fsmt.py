"""FSMT without a branch on the values of token ids (modeling_fsmt, transformers 5.23)."""

from __future__ import annotations

from torch import Tensor


def padding_mask(input_ids: Tensor, padding_idx: int = 1) -> Tensor:
    """For make_padding_mask, which returns None if no token is padding: true for each token that is padding."""
    return input_ids.eq(padding_idx)
