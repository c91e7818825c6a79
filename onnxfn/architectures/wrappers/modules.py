"""A function as a module, which is what a part runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def module(forward: Callable[..., Any]) -> Any:
    """A module without weights of its own that does this."""
    import torch

    made = torch.nn.Module()
    made.forward = forward
    return made
