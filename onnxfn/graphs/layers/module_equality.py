"""Equality of modules up to the values of parameters and the index of the layer."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

INTERNAL = ("_parameters", "_buffers", "_modules")
"""Attributes of a module that are compared apart from the others."""

INDEX_WORDS = ("idx", "index", "layer", "number")
"""Words in the names of attributes that are the index of a layer."""

PLAIN = (int, float, str)
"""Types of values that are compared with `==`."""

Comparison = Callable[[Any, Any, int], bool]
"""Function from two values and a layer offset to whether they are equal up to parameters."""


def same_but_parameters(a: Any, b: Any, layer_offset: int) -> bool:
    """Whether module `b` computes what module `a` does, but with its own parameters, `layer_offset` layers later.

    Equal are their types, attributes and submodules, the shapes and dtypes of their parameters, and the values of the
    buffers that they compute themselves. An attribute that is the index of the layer may be larger by the offset.
    """
    if type(a) is not type(b) or a._modules.keys() != b._modules.keys():
        return False
    if not _same_value(_attributes(a), _attributes(b), layer_offset) or not _same_tensors(a, b):
        return False
    return all(_same_child(a._modules[name], b._modules[name], layer_offset) for name in a._modules)


def _same_child(a: Any, b: Any, layer_offset: int) -> bool:
    return a is b if a is None or b is None else same_but_parameters(a, b, layer_offset)


def _attributes(module: Any) -> Mapping[str, Any]:
    """The attributes of a module other than tensors and submodules; hooks are among them."""
    return {name: value for name, value in vars(module).items() if name not in INTERNAL}


def _same_tensors(a: Any, b: Any) -> bool:
    """Whether parameters and stored buffers have the same shapes and dtypes, and computed buffers the same values."""
    computed = a._non_persistent_buffers_set
    tensors, others = ({**module._parameters, **module._buffers} for module in (a, b))
    return list(tensors) == list(others) and all(
        _same_tensor(tensor, others[name], values=name in computed) for name, tensor in tensors.items()
    )


def _same_tensor(a: Any, b: Any, *, values: bool) -> bool:
    """Whether two tensors have the same shape and dtype, and the same values if these are to be compared."""
    import torch

    if a is None or b is None:
        return a is b
    same_type = (a.shape, a.dtype) == (b.shape, b.dtype)
    return same_type and (not values or bool(torch.equal(a, b)))


def _same_value(a: Any, b: Any, layer_offset: int) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, PLAIN):
        return bool(a == b)
    comparison = next((comparison for kinds, comparison in _comparisons().items() if isinstance(a, kinds)), _equal)
    return comparison(a, b, layer_offset)


def _equal(a: Any, b: Any, _: int) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError, RuntimeError):  # values that cannot be compared, such as arrays
        return False


def _same_sequence(a: Any, b: Any, layer_offset: int) -> bool:
    return len(a) == len(b) and all(_same_value(*pair, layer_offset) for pair in zip(a, b, strict=True))


def _same_mapping(a: Any, b: Any, layer_offset: int) -> bool:
    return list(a) == list(b) and all(
        _same_value(value, b[key], layer_offset) or _shifted_index(key, value, b[key], layer_offset)
        for key, value in a.items()
    )


def _shifted_index(name: Any, a: Any, b: Any, layer_offset: int) -> bool:
    """Whether an attribute is the index of a layer, and that of `b` is `layer_offset` larger."""
    is_index = type(a) is int and type(b) is int and any(word in str(name) for word in INDEX_WORDS)
    return is_index and b - a == layer_offset


def _same_method(a: Any, b: Any, _: int) -> bool:
    return a.__func__ is b.__func__ and type(a.__self__) is type(b.__self__)


def _same_partial(a: Any, b: Any, layer_offset: int) -> bool:
    return _same_value((a.func, a.args, a.keywords), (b.func, b.args, b.keywords), layer_offset)


def _comparisons() -> Mapping[Any, Comparison]:
    """Types -> how two values of these types are compared; values of other types are compared with `==`."""
    import torch

    return MappingProxyType(
        {
            (list, tuple): _same_sequence,
            Mapping: _same_mapping,
            torch.nn.Module: same_but_parameters,
            torch.Tensor: lambda a, b, _: _same_tensor(a, b, values=True),
            types.MethodType: _same_method,
            functools.partial: _same_partial,
        }
    )
