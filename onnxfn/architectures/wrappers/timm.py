"""A model of timm with a named output."""

from __future__ import annotations

from typing import Any

from onnxfn.architectures.wrappers.modules import module


def classifier(model: Any) -> Any:
    """Images -> logits, which timm returns as a tensor."""
    return module(lambda pixel_values: {"logits": model(pixel_values)})
