"""Sorts of torch that keep the order of equal values, as the operator TopK of ONNX does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from onnxfn.models.patching import replaced


@contextmanager
def stable_sorts() -> Iterator[None]:
    """Makes `sort` and `argsort` keep the order of equal values, in this thread.

    Without `stable=True`, torch may return equal values in any order: from 17 values on, it does.
    """
    import torch

    with ExitStack() as undo:
        for owner in (torch, torch.Tensor):
            for name in ("sort", "argsort"):
                undo.enter_context(replaced(owner, name, _stable(getattr(owner, name))))
        yield


def _stable(sort: Callable[..., Any]) -> Callable[..., Any]:
    """A function that sorts as `sort` does, and keeps the order of equal values."""

    @functools.wraps(sort)  # modes of torch tell functions by their names
    def keep_order(values: Any, *options: Any, **named: Any) -> Any:
        by_place = dict(zip(("dim", "descending"), options, strict=False))
        return sort(values, **{**by_place, **named, "stable": True})

    return keep_order
