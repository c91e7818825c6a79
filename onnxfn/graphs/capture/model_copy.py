"""A copy of a model that shares its tensors: it is changed and traced while other threads call the model."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any

ATTEMPTS = 3
"""How often a copy is tried: it fails when another thread adds an attribute to the model at that moment."""


def model_copy(model: Any) -> Any:
    """A copy of the modules and configurations of a model, on the model's own tensors: no weight is copied.

    The model itself if it cannot be copied: it has an attribute that `copy.deepcopy` refuses, a module of TorchScript,
    or a hook or another function that holds one of its modules.
    """
    for _ in range(ATTEMPTS):
        try:
            duplicate = _deep_copy(model)
        except Exception:  # noqa: BLE001, S112 - an attribute of any class may raise anything
            continue
        return duplicate if _is_separate(model, duplicate) else model
    return model


def _deep_copy(model: Any) -> Any:
    """A deep copy of a model in which each tensor is the tensor of the model."""
    from torch.overrides import TorchFunctionMode

    shared = TorchFunctionMode()  # of this thread alone
    shared.__torch_function__ = types.MethodType(_shared_tensor, shared)
    with shared:
        return copy.deepcopy(model, {id(tensor): tensor for tensor in _tensors(model)})


def _shared_tensor(_: Any, function: Callable[..., Any], __: Any, arguments: Any = (), named: Any = None) -> Any:
    """The result of a function of torch; of a copy, the tensor itself."""
    import torch

    copies = (torch.Tensor.__deepcopy__, torch.Tensor.clone)
    return arguments[0] if function in copies else function(*arguments, **named or {})


def _tensors(model: Any) -> Iterator[Any]:
    return chain(model.parameters(), model.buffers())


def _is_separate(model: Any, duplicate: Any) -> bool:
    """Whether a copy has the tensors of the model and none of its modules."""
    modules = {id(module) for module in model.modules()}
    attributes = [value for module in duplicate.modules() for value in vars(module).values()]
    same_tensors = all(tensor is other for tensor, other in zip_longest(_tensors(model), _tensors(duplicate)))
    return same_tensors and not any(id(value) in modules for value in _inner_values(attributes))


def _inner_values(value: Any) -> Iterator[Any]:
    """A value, the items of a container, and what functions hold: variables, defaults, the objects of methods."""
    stack, seen = [value], set()
    while stack:
        value = stack.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            stack.extend(_directly_inside(value))


def _directly_inside(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(value)
    if inspect.ismethod(value):
        return value.__self__, value.__func__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if inspect.isfunction(value):
        cells = tuple(cell.cell_contents for cell in value.__closure__ or () if _is_set(cell))
        return *cells, value.__defaults__, value.__kwdefaults__, vars(value)
    return ()


def _is_set(cell: Any) -> bool:
    """Whether a variable that a function closes over has a value."""
    try:
        cell.cell_contents  # noqa: B018 - raises if it has none
    except ValueError:
        return False
    return True
