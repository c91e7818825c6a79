"""CLAP with fusion, without picking out the sounds that are longer: what would be fused is computed for all."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def patch_embeddings(patches: Any, hidden_states: Tensor, is_longer_idx: Tensor | None = None) -> Tensor:
    """A sound's patches, fused with those of its crops where it is longer (ClapAudioPatchEmbed, transformers 5.23)."""
    import torch

    made = patches.proj(hidden_states[:, :1])
    if is_longer_idx is not None:
        sounds = torch.arange(hidden_states.shape[0], device=made.device)
        longer = (sounds[:, None] == is_longer_idx).to(torch.int64).sum(dim=1) > 0
        fused = patches.fusion_model(made, _crop_features(patches, hidden_states[:, 1:], made.shape[-1]))
        made = torch.where(longer[:, None, None, None], fused, made)
    laid: Tensor = patches.norm(made.flatten(2).transpose(1, 2) if patches.flatten else made)
    return laid


def _crop_features(patches: Any, crops: Tensor, width: int) -> Tensor:
    """Crops side by side, filled up to a width."""
    from torch.nn import functional

    sounds, count, *size = crops.shape
    near = patches.mel_conv2d(crops.reshape(sounds * count, 1, *size))
    beside = near.view(sounds, count, *near.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3)
    return functional.pad(beside, (0, width - beside.shape[-1]))
