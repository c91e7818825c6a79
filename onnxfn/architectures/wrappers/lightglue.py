"""LightGlue that goes through all its layers with all keypoints (modeling_lightglue, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec

SWITCHES = ("depth_confidence", "width_confidence")
OFF = ", ".join(f"{name}=-1.0" for name in SWITCHES)


def keypoint_matcher(model: Any) -> Any:
    """Matches as `[batch, 2, keypoints]`, which the model gives image by image where it keeps all of them.

    InvalidSpec for one that stops as soon as it is sure, or drops keypoints: how much it computes is then in the image.
    """
    on = [f"{name}={getattr(model, name)}" for name in SWITCHES if getattr(model, name) > 0]
    if on:
        raise InvalidSpec(
            f"{type(model).__name__} stops early and drops keypoints by what it sees ({', '.join(on)}), and a graph "
            f"computes all; export one without that: from_pretrained(..., {OFF}), or so in its config.json"
        )

    def forward(pixel_values: Tensor, **options: Any) -> dict[str, Any]:
        told = dict(model(pixel_values=pixel_values, **options))
        pairs = told["mask"].shape
        return told | {name: told[name].reshape(pairs) for name in ("matches", "matching_scores")}

    return module(forward)
