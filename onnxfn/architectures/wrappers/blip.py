"""The two halves of BLIP that write a text about an image."""

from __future__ import annotations

from typing import Any


def vision_encoder(model: Any) -> Any:
    """Images -> the states of the vision model."""
    return model.vision_model


def text_decoder(model: Any) -> Any:
    """Tokens and the states of the vision model -> logits."""
    return model.text_decoder
