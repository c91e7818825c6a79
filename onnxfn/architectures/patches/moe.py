"""Experts without a loop over those that were hit: the same numbers in operations that torch.export can follow.

The originals are in transformers/integrations/moe.py (5.23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def batched_mm_forward(self: Any, _: str, __: Callable[..., Any]) -> Callable[..., Any]:
    """For ExpertsInterface.get_interface, which gives the way that a configuration asks for, or the model's own loop.

    The loop goes over the experts that the traced tokens chose. `batched_mm` takes, for each token, the weights of the
    experts that it chooses; its memory grows with the number of tokens.
    """
    chosen: Callable[..., Any] = self["batched_mm"]
    return chosen
