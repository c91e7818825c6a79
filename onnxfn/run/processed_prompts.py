"""Texts with pictures of noise for the check of a whole model, as its processor gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxfn.run.processed import processed
from onnxfn.run.prompts_with_images import Prompt

TEXT = "What is this?"
PICTURES: tuple[tuple[int, int], ...] = ((50, 70), (96, 64))
"""Height and width of each picture."""


def processed_prompts(processor: Any) -> Iterator[Prompt]:
    """A text with one picture, and one with pictures of two sizes; none without a processor of images and texts."""
    if any(getattr(processor, name, None) is None for name in ("tokenizer", "image_processor")):
        return
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in PICTURES]
    for count in range(1, len(pictures) + 1):
        case = f"{count} picture{'s' * (count > 1)} by {type(processor).__name__}"
        yield Prompt(case, processed(processor, TEXT, pictures[:count], ()))
