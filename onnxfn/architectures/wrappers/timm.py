"""A model of timm with a named output."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def classifier(model: Any) -> Any:
    """Images -> logits, which timm returns as a tensor."""

    def forward(pixel_values: Tensor) -> dict[str, Tensor]:
        return {"logits": model(pixel_values)}

    return module(forward)
