"""The features of sounds in Qwen2-Audio."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def audio_features(model: Any, input_features: Tensor, feature_attention_mask: Tensor, **_: Any) -> Tensor:
    """What forward of Qwen2AudioModel (transformers 5.23) computes of sounds, before it puts it among the tokens.

    Returns:
        The rows of all sounds, without those of padding, `[tokens, width]`.
    """
    from transformers.masking_utils import create_bidirectional_mask

    tower, projector = model.base_model.audio_tower, model.base_model.multi_modal_projector
    lengths, rows = tower._get_feat_extract_output_lengths(feature_attention_mask.sum(-1))
    frames = torch.arange((input_features.shape[-1] - 2) // 2 + 1, device=lengths.device)
    is_frame = (frames < lengths[:, None]).long()
    sizes = torch.zeros((*is_frame.shape, 1), dtype=input_features.dtype, device=lengths.device)
    mask = create_bidirectional_mask(config=tower.config, inputs_embeds=sizes, attention_mask=is_frame)
    features: Tensor = projector(tower(input_features, attention_mask=mask).last_hidden_state)
    return features[torch.arange(features.shape[1], device=rows.device) < rows[:, None]]
