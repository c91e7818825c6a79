"""The features of sounds in Gemma 3n."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def audio_features(model: Any, input_features: Tensor, input_features_mask: Tensor, **_: Any) -> Tensor:
    """What forward of Gemma3nModel (transformers 5.23) computes of sounds, before it puts it among the tokens.

    Its processor writes as many placeholder tokens for each sound, whatever its length. So each sound has that many
    rows: its own, then the embedding of the last token of the vocabulary.

    Args:
        model: The model.
        input_features: `[sounds, frames, mels]`.
        input_features_mask: `[sounds, frames]`, true for frames of the sound.

    Returns:
        `[sounds, config.audio_soft_tokens_per_image, width]`.
    """
    inside = model.model
    result = inside.get_audio_features(input_features, ~input_features_mask, return_dict=True)
    last = torch.full((1, 1), inside.vocab_size - 1, device=input_features.device)
    padding = inside.embed_audio(input_ids=last)
    own = torch.where(result.audio_mel_mask.unsqueeze(-1), padding, result.pooler_output)
    count = inside.config.audio_soft_tokens_per_image
    return torch.cat([own, padding.expand(own.shape[0], count, -1)], dim=1)[:, :count]
