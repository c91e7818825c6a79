"""`torch.cond` and its like, run as Python runs them: torch compiles them, also outside of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import replaced


@contextmanager
def eager_branches() -> Iterator[None]:
    """Runs the functions that are given to `torch.cond` and `while_loop` without torch.compile, in this thread.

    torch.compile fails where a mode watches the operators, as `ticking_operators` does.
    """
    with replaced(torch_name("control_flow"), "_hop_compile_and_call", _call):
        yield


def _call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
    return function(*arguments, **named or {})
