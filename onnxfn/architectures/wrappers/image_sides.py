"""The size of the images that a tower of timm takes."""

from __future__ import annotations

from typing import Any


def fixed_sides(model: Any) -> tuple[int, int] | None:
    """The height and the width of images for a tower of timm that pools each image to as many tokens (Gemma 3n).

    Such a tower runs on images of any size, and configurations of transformers do not hold the size. That for which
    it was trained is in the configuration of timm.

    Args:
        model: A model of transformers.

    Returns:
        Height and width in pixels; None for any other tower.
    """
    if getattr(model.config, "vision_soft_tokens_per_image", None) is None:
        return None
    configs = (getattr(each, "pretrained_cfg", None) for each in model.modules())
    size = next((each["input_size"] for each in configs if each), None)
    return None if size is None else (size[1], size[2])
