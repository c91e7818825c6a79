"""Contexts in which a function runs what is called of torch in this thread; other threads call as before."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name

Run = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
"""Runs a function or an operator of torch: from it, its arguments and its named arguments to its result."""


@contextmanager
def torch_functions(run: Run) -> Iterator[None]:
    """Lets `run` run each function of torch and each method of a tensor. What these call inside runs as before.

    >>> import torch
    >>> with torch_functions(lambda function, arguments, named: function.__name__):
    ...     torch.relu(torch.Tensor())
    'relu'
    """
    from torch.overrides import TorchFunctionMode

    with _running(TorchFunctionMode(), "__torch_function__", run):
        yield


@contextmanager
def torch_operators(run: Run) -> Iterator[None]:
    """Lets `run` run each operator of torch, of which its functions are made."""
    mode = torch_name("DispatchMode")()
    mode.supports_higher_order_operators = True
    with _running(mode, "__torch_dispatch__", run):
        yield


@contextmanager
def _running(mode: Any, method: str, run: Run) -> Iterator[None]:
    def call(_: Any, called: Any, __: Any, arguments: Any = (), named: Any = None) -> Any:
        return run(called, arguments, named or {})

    setattr(mode, method, types.MethodType(call, mode))
    try:
        with mode:
            yield
    finally:
        delattr(mode, method)  # a cycle of references would keep the memory
