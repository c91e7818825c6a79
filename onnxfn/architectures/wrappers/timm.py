"""What a model of timm gives, by a name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def classifier(model: Any) -> Any:
    """From images to logits, which timm gives alone."""

    def forward(pixel_values: Tensor) -> dict[str, Tensor]:
        return {"logits": model(pixel_values)}

    return module(forward)
