"""A copy of a model that shares its tensors: it is changed and traced while other threads call the model."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any

from onnxfn.models.torch_modes import torch_functions

ATTEMPTS = 3
"""How often a copy is tried: it fails when another thread adds an attribute to the model at that moment."""


def model_copy(model: Any) -> Any:
    """A copy of the modules and configurations of a model, on the model's own tensors: no weight is copied.

    The model itself if it cannot be copied: it has an attribute that `copy.deepcopy` refuses, a module of TorchScript,
    or a hook or another function that holds one of its modules.
    """
    for _ in range(ATTEMPTS):
        try:
            duplicate = copied(model, _itself)
        except Exception:  # noqa: BLE001, S112 - an attribute of any class may raise anything
            continue
        return duplicate if _is_separate(model, duplicate) else model
    return model


def _itself(tensor: Any) -> Any:
    return tensor


def copied(model: Any, replaced: Callable[[Any], Any]) -> Any:
    """A deep copy of a model in which each tensor is what a function returns for the tensor of the model.

    The function is called once for each tensor: weights that are tied stay tied.
    """
    results: dict[int, tuple[Any, Any]] = {}

    def result(tensor: Any) -> Any:
        if id(tensor) not in results:
            results[id(tensor)] = (tensor, replaced(tensor))
        return results[id(tensor)][1]

    def call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return result(arguments[0]) if function in _copies() else function(*arguments, **named)

    known = {id(tensor): result(tensor) for tensor in tensors_of(model)}
    with torch_functions(call):
        return copy.deepcopy(model, known)


def _copies() -> tuple[Any, ...]:
    """The functions of torch with which `copy.deepcopy` copies a tensor."""
    import torch

    return torch.Tensor.__deepcopy__, torch.Tensor.clone


def tensors_of(model: Any) -> Iterator[Any]:
    """The weights of a model: its parameters, then its buffers."""
    return chain(model.parameters(), model.buffers())


def _is_separate(model: Any, duplicate: Any) -> bool:
    """Whether a copy has the tensors of the model and none of its modules."""
    modules = {id(module) for module in model.modules()}
    attributes = [value for module in duplicate.modules() for value in vars(module).values()]
    same_tensors = all(tensor is other for tensor, other in zip_longest(tensors_of(model), tensors_of(duplicate)))
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
