"""What of a model a part runs: the model itself, or another callable inside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from onnxfn.errors import unknown


def encoder(model: Any) -> Any:
    """The encoder of an encoder-decoder."""
    return model.get_encoder()


CALLABLES: Mapping[str, Callable[[Any], Any]] = MappingProxyType({"encoder": encoder})


def callable_of(model: Any, runs: str | None) -> Any:
    """What `runs` names: nothing is the model; else a function of this file, or `package.module:function`, tells."""
    if runs is None:
        return model
    if ":" in runs:
        module, _, name = runs.partition(":")
        return getattr(import_module(module), name)(model)
    if runs not in CALLABLES:
        raise unknown("callable", runs, CALLABLES, of=type(model).__name__)
    return CALLABLES[runs](model)
