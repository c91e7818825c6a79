"""Encodec for any number of codebooks (modeling_encodec, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def codebook_embedding_sum(quantizer: Any, codes: Tensor) -> Tensor:
    """For EncodecResidualVectorQuantizer.decode, which loops over the codebooks, so that a trace fixes their number.

    `codes` is `[codebooks, batch, frames]`, the result `[batch, size, frames]`.
    """
    tables = torch.stack([layer.codebook.embed for layer in quantizer.layers])
    codebooks = torch.arange(codes.shape[0], device=codes.device)[:, None, None]
    quantized: Tensor = tables[codebooks, codes].sum(0).permute(0, 2, 1)
    return quantized
