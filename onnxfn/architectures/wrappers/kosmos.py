"""The features of images in Kosmos-2 and Kosmos-2.5.

Source: "Kosmos-2: Grounding Multimodal Large Language Models to the World", arXiv 2306.14824.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def image_features(model: Any, pixel_values: Tensor, **_: Any) -> Tensor:
    """What forward of Kosmos2ForConditionalGeneration (transformers 5.23) computes of images."""
    states = model.vision_model(pixel_values=pixel_values)[0]
    return _projected(model, model.vision_model.model.post_layernorm(states))


def patch_features(model: Any, flattened_patches: Tensor, **_: Any) -> Tensor:
    """What forward of Kosmos2_5ForConditionalGeneration (transformers 5.23) computes of patches with their places."""
    return _projected(model, model.vision_model(flattened_patches=flattened_patches)[0])


def _projected(model: Any, states: Tensor) -> Tensor:
    """The features of states that have the length 1, `[images, queries, width]`."""
    features: Tensor = model.image_to_text_projection(torch.nn.functional.normalize(states, dim=-1))[0]
    return features
