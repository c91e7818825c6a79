"""CLAP with fusion, computed for every sound of a batch (modeling_clap, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def patch_embeddings(self: Any, hidden_states: Tensor, is_longer_idx: Tensor | None = None) -> Tensor:
    """For ClapAudioPatchEmbed.forward, which selects the longer sounds and fuses them with their crops.

    The number of selected sounds depends on the data. Here fusion is computed for all sounds, and used for the longer.
    """
    embeddings = self.proj(hidden_states[:, :1])
    if is_longer_idx is not None:
        indices = torch.arange(hidden_states.shape[0], device=embeddings.device)
        is_longer = (indices[:, None] == is_longer_idx).to(torch.int64).sum(dim=1) > 0
        fused = self.fusion_model(embeddings, _crop_features(self, hidden_states[:, 1:], embeddings.shape[-1]))
        embeddings = torch.where(is_longer[:, None, None, None], fused, embeddings)
    normalized: Tensor = self.norm(embeddings.flatten(2).transpose(1, 2) if self.flatten else embeddings)
    return normalized


def _crop_features(self: Any, crops: Tensor, width: int) -> Tensor:
    """The features of the crops of each sound, concatenated along the width and padded to `width`."""
    batch, count, *size = crops.shape
    features = self.mel_conv2d(crops.reshape(batch * count, 1, *size))
    concatenated = features.view(batch, count, *features.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3)
    return functional.pad(concatenated, (0, width - concatenated.shape[-1]))
