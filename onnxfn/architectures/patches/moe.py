"""Mixture of experts without a loop over the experts that were hit (transformers.integrations.moe, 5.23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def batched_mm_forward(
    self: Any,
    experts_implementation: str,  # noqa: ARG001 - one is traced, whichever is configured
    default: Callable[..., Any],  # noqa: ARG001
) -> Callable[..., Any]:
    """For ExpertsInterface.get_interface, which returns the implementation that the configuration names.

    The default implementation loops over the experts that the traced tokens chose. `batched_mm` gathers, for each
    token, the weights of its experts. Its memory grows with the number of tokens.
    """
    implementation: Callable[..., Any] = self["batched_mm"]
    return implementation
