"""Features of images and sounds that `forward` of a model computes, and no method of it (transformers 5.23)."""

from typing import Any

import torch
from torch import Tensor


def image_features(model: Any, pixel_values: Tensor, **_: Any) -> Tensor:
    """The features of images, as in forward of Kosmos2ForConditionalGeneration."""
    states = model.vision_model(pixel_values=pixel_values)[0]
    return _projected(model, model.vision_model.model.post_layernorm(states))


def patch_features(model: Any, flattened_patches: Tensor, **_: Any) -> Tensor:
    """The features of patches with places, as in forward of Kosmos2_5ForConditionalGeneration (transformers 5.23)."""
    return _projected(model, model.vision_model(flattened_patches=flattened_patches)[0])


def _projected(model: Any, states: Tensor) -> Tensor:
    """The features of states that have the length 1, `[images, queries, width]`."""
    features: Tensor = model.image_to_text_projection(torch.nn.functional.normalize(states, dim=-1))[0]
    return features


def gemma3n_audio(model: Any, input_features: Tensor, input_features_mask: Tensor, **_: Any) -> Tensor:
    """The features of sounds, as Gemma3nModel puts them among the tokens: its rows, then the last token's embedding."""
    inside = model.model
    result = inside.get_audio_features(input_features, ~input_features_mask, return_dict=True)
    last = torch.full((1, 1), inside.vocab_size - 1, device=input_features.device)
    padding = inside.embed_audio(input_ids=last)
    own = torch.where(result.audio_mel_mask.unsqueeze(-1), padding, result.pooler_output)
    count = inside.config.audio_soft_tokens_per_image
    return torch.cat([own, padding.expand(own.shape[0], count, -1)], dim=1)[:, :count]


def frame_features(
    model: Any, pixel_values: Tensor, qformer_input_ids: Tensor, qformer_attention_mask: Tensor, **inputs: Any
) -> Any:
    """The result of get_video_features (transformers 5.23) for videos, each with its own text."""
    return model.get_video_features(pixel_values, qformer_input_ids, qformer_attention_mask, **inputs)


def qwen2_audio(model: Any, input_features: Tensor, feature_attention_mask: Tensor, **_: Any) -> Tensor:
    """The features of all sounds without padding, as forward of Qwen2AudioModel computes them, `[tokens, width]`."""
    from transformers.masking_utils import create_bidirectional_mask

    tower, projector = model.base_model.audio_tower, model.base_model.multi_modal_projector
    lengths, rows = tower._get_feat_extract_output_lengths(feature_attention_mask.sum(-1))
    frames = torch.arange((input_features.shape[-1] - 2) // 2 + 1, device=lengths.device)
    is_frame = (frames < lengths[:, None]).long()
    sizes = torch.zeros((*is_frame.shape, 1), dtype=input_features.dtype, device=lengths.device)
    mask = create_bidirectional_mask(config=tower.config, inputs_embeds=sizes, attention_mask=is_frame)
    features: Tensor = projector(tower(input_features, attention_mask=mask).last_hidden_state)
    return features[torch.arange(features.shape[1], device=rows.device) < rows[:, None]]
