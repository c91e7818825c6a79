"""A function as a `torch.nn.Module`, which is what a part runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def module(forward: Callable[..., Any]) -> Any:
    """A module without parameters whose `forward` is this function."""
    import torch

    instance = torch.nn.Module()
    instance.forward = forward
    return instance
