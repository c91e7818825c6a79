"""The features of the frames of videos in InstructBlipVideo, whose processor gives them as images."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def frame_features(
    model: Any, pixel_values: Tensor, qformer_input_ids: Tensor, qformer_attention_mask: Tensor, **inputs: Any
) -> Any:
    """What get_video_features (transformers 5.23) computes for videos and the text that is read with each."""
    return model.get_video_features(pixel_values, qformer_input_ids, qformer_attention_mask, **inputs)
