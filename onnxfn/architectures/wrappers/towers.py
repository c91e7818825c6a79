"""The towers of a model that compares texts with images, audio or video, such as CLIP. Each returns embeddings."""

from __future__ import annotations

from typing import Any

import torch

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def text_model(model: Any) -> Any:
    """Texts -> embeddings."""
    return _tower(model, "get_text_features")


def vision_model(model: Any) -> Any:
    """Images -> embeddings."""
    return _tower(model, "get_image_features")


def audio_model(model: Any) -> Any:
    """Audio -> embeddings."""
    return _tower(model, "get_audio_features")


def video_model(model: Any) -> Any:
    """Video clips -> embeddings."""
    return _tower(model, "get_video_features")


def prefix_attention_model(model: Any) -> Any:
    """PaliGemma with all tokens in the prefix, so that they attend to each other, as with ColPali's processor.

    Without `token_type_ids`, transformers 5.23 does so for a batch without padding only. In a batch with padding a
    token attends to earlier tokens only (modeling_paligemma: the mask is causal, the attention is not).
    """
    return module(
        lambda input_ids, **inputs: model(input_ids=input_ids, token_type_ids=torch.zeros_like(input_ids), **inputs)
    )


def _tower(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        raise InvalidSpec(
            f"{type(model).__name__} has no {name}, so it is not made of two towers that run separately; "
            "split a model of the task feature-extraction that compares texts with images or audio"
        )

    return module(lambda **inputs: getattr(model, name)(**inputs))  # noqa: PLW0108 - a method that may be patched
