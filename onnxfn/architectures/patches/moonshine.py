"""Moonshine's lengths in whole numbers: the model divides them as real ones, which a trace cannot follow."""

from __future__ import annotations

from typing import Any


def feature_lengths(_: Any, samples: Any) -> Any:
    """How many states the convolutions make of so many samples (modeling_moonshine, transformers 5.23)."""
    return (((samples - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1
