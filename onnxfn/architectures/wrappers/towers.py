"""The halves of a model that compares texts with images or sounds: each gives vectors in the space that they share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def text_model(model: Any) -> Any:
    """From texts to vectors."""
    return _half(model, "get_text_features")


def vision_model(model: Any) -> Any:
    """From images to vectors."""
    return _half(model, "get_image_features")


def audio_model(model: Any) -> Any:
    """From sounds to vectors."""
    return _half(model, "get_audio_features")


def video_model(model: Any) -> Any:
    """From clips to vectors."""
    return _half(model, "get_video_features")


def prefix_attention_model(model: Any) -> Any:
    """PaliGemma on texts that are prefix from end to end, whose tokens see each other: as ColPali's processor says.

    Told nothing of prefixes, transformers 5.23 lets them do so in a batch without padding, and in a batch with padding
    see earlier ones alone (modeling_paligemma: the mask is causal, the attention is not).
    """
    import torch

    def forward(input_ids: Tensor, **given: Any) -> Any:
        return model(input_ids=input_ids, token_type_ids=torch.zeros_like(input_ids), **given)

    return module(forward)


def _half(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        raise InvalidSpec(
            f"{type(model).__name__} has no {name}, so it is not made of two halves that can stand alone; "
            "split a model that compares both, for feature-extraction"
        )

    def forward(**given: Any) -> Any:
        return getattr(model, name)(**given)

    return module(forward)
