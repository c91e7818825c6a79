"""Functions that are called in place of each function, or of each operator, that torch runs in this thread."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name

TorchCall = Callable[..., Any]
"""From a function or an operator of torch, its arguments, and those with a name, to its result."""


@contextmanager
def torch_functions(call: TorchCall) -> Iterator[None]:
    """A context in which `call` is called in place of each function of torch that this thread calls.

    >>> import torch
    >>> with torch_functions(lambda function, arguments, named: function.__name__):
    ...     torch.relu(torch.Tensor())
    'relu'
    """
    from torch.overrides import TorchFunctionMode

    with _calling(TorchFunctionMode(), "__torch_function__", call):
        yield


@contextmanager
def torch_operators(call: TorchCall) -> Iterator[None]:
    """A context in which `call` is called in place of each operator that torch runs in this thread."""
    mode = torch_name("DispatchMode")()
    mode.supports_higher_order_operators = True
    with _calling(mode, "__torch_dispatch__", call):
        yield


@contextmanager
def _calling(mode: Any, method: str, call: TorchCall) -> Iterator[None]:
    """Enters a mode of torch with this method. The mode and its method refer to each other until the end."""

    def called(_: Any, function: Any, __: Any, arguments: Any = (), named: Any = None) -> Any:
        return call(function, arguments, named or {})

    setattr(mode, method, types.MethodType(called, mode))
    try:
        with mode:
            yield
    finally:
        delattr(mode, method)  # without the cycle, what `call` holds is released at once
