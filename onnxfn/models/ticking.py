"""Calls a function again and again while torch computes in this thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.models.torch_modes import torch_operators
from onnxfn.specs.stored.reports import Tick, no_tick


@contextmanager
def ticking_operators(tick: Tick) -> Iterator[None]:
    """Calls `tick` before each operator that torch runs in this thread, so an exception of it stops a model.

    torch runs the same kernels as without: the operators see no other arguments, and the model has no hooks, which
    would turn off the fast path of `torch.nn.TransformerEncoder`. With `no_tick` torch runs as it does outside.
    """
    if tick is no_tick:
        yield
        return

    def run(operator: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        tick()
        return operator(*arguments, **named)

    with torch_operators(run):
        yield
