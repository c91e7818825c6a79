"""Likeness: of two modules nothing differs but values of parameters, and the number of the layer."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

INTERNAL = ("_parameters", "_buffers", "_modules")
"""What torch keeps of a module and is compared otherwise than its other attributes."""

NUMBERS = ("idx", "index", "layer", "number")
"""In the names of attributes that tell a layer's number."""

Likeness = Callable[[Any, Any, int], bool]


def same_but_parameters(one: Any, other: Any, by: int) -> bool:
    """Whether two modules do the same with other parameters, `by` layers apart.

    Their types, what they hold, the shapes and types of their parameters and the values of the tables that they compute
    for themselves are the same; the number of a layer may be greater by as many as the layers lie apart.
    """
    if type(one) is not type(other) or one._modules.keys() != other._modules.keys():
        return False
    if not _values(_said(one), _said(other), by) or not _tensors(one, other):
        return False
    return all(_child(one._modules[name], other._modules[name], by) for name in one._modules)


def _child(one: Any, other: Any, by: int) -> bool:
    return one is other if one is None or other is None else same_but_parameters(one, other, by)


def _said(module: Any) -> Mapping[str, Any]:
    """What a module holds beside tensors and modules: its own attributes, and whether somebody hooks into it."""
    return {name: value for name, value in vars(module).items() if name not in INTERNAL}


def _tensors(one: Any, other: Any) -> bool:
    """Whether parameters, and buffers that are stored, have one shape and type, and other buffers the same values."""
    tables = one._non_persistent_buffers_set
    ours, theirs = ({**module._parameters, **module._buffers} for module in (one, other))
    return list(ours) == list(theirs) and all(
        _tensor(tensor, theirs[name], values=name in tables) for name, tensor in ours.items()
    )


def _tensor(one: Any, other: Any, *, values: bool) -> bool:
    import torch

    if one is None or other is None:
        return one is other
    same = (one.shape, one.dtype) == (other.shape, other.dtype)
    return same and (not values or bool(torch.equal(one, other)))


def _values(one: Any, other: Any, by: int) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    return next((same for kinds, same in _kinds().items() if isinstance(one, kinds)), _equal)(one, other, by)


def _equal(one: Any, other: Any, _: int) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def _sequence(one: Any, other: Any, by: int) -> bool:
    return len(one) == len(other) and all(_values(*pair, by) for pair in zip(one, other, strict=True))


def _mapping(one: Any, other: Any, by: int) -> bool:
    return list(one) == list(other) and all(
        _values(value, other[key], by) or _numbered(key, value, other[key], by) for key, value in one.items()
    )


def _numbered(name: Any, one: Any, other: Any, by: int) -> bool:
    """Whether an attribute tells the number of a layer, and tells it rightly."""
    counts = type(one) is int and type(other) is int and any(word in str(name) for word in NUMBERS)
    return counts and other - one == by


def _method(one: Any, other: Any, _: int) -> bool:
    return one.__func__ is other.__func__ and type(one.__self__) is type(other.__self__)


def _partial(one: Any, other: Any, by: int) -> bool:
    return _values((one.func, one.args, one.keywords), (other.func, other.args, other.keywords), by)


def _kinds() -> Mapping[Any, Likeness]:
    """How two values of a type are compared; all others are, by `==`."""
    import torch

    return MappingProxyType(
        {
            (list, tuple): _sequence,
            Mapping: _mapping,
            torch.nn.Module: same_but_parameters,
            torch.Tensor: lambda one, other, _: _tensor(one, other, values=True),
            types.MethodType: _method,
            functools.partial: _partial,
        }
    )
