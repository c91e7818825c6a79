"""Calls a function again and again while torch computes in this thread."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.reports import Tick, no_tick


@contextmanager
def ticking_operators(tick: Tick) -> Iterator[None]:
    """Calls `tick` before each operator that torch runs in this thread, so an exception of it stops a model.

    torch runs the same kernels as without: the operators see no other arguments, and the model has no hooks, which
    would turn off the fast path of `torch.nn.TransformerEncoder`. With `no_tick` torch runs as it does outside.
    """
    if tick is no_tick:
        yield
        return

    def run(_: Any, operator: Callable[..., Any], __: Any, arguments: Any = (), named: Any = None) -> Any:
        tick()
        return operator(*arguments, **named or {})

    mode = torch_name("DispatchMode")()
    mode.__torch_dispatch__ = types.MethodType(run, mode)
    mode.supports_higher_order_operators = True
    with mode:
        yield
