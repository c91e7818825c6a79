"""Encodec for any number of codebooks: its own loop has a step for each that was traced."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def codebook_embedding_sum(quantizer: Any, codes: Tensor) -> Tensor:
    """EncodecResidualVectorQuantizer.decode (transformers 5.23): codes are `[codebooks, batch, frames]`."""
    import torch

    tables = torch.stack([layer.codebook.embed for layer in quantizer.layers])
    book = torch.arange(codes.shape[0], device=codes.device)[:, None, None]
    made: Tensor = tables[book, codes].sum(0).permute(0, 2, 1)
    return made
