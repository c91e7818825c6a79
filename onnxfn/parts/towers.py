"""The halves of a model that compares texts with images or sounds: each gives vectors in the space that they share."""

from __future__ import annotations

from typing import Any

from onnxfn.errors import InvalidSpec
from onnxfn.parts.modules import module


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


def itself(model: Any) -> Any:
    """The model, on fewer inputs than it could take."""
    return model


def _half(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        raise InvalidSpec(
            f"{type(model).__name__} has no {name}, so it is not made of two halves that can stand alone; "
            "split a model that compares both, for feature-extraction"
        )

    def forward(**given: Any) -> Any:
        return getattr(model, name)(**given)

    return module(forward)
