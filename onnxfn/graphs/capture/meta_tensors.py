"""Calls of torch on tensors of the meta device, which have shapes and no values, in place of those of a model.

A call takes some microseconds: torch's fake tensors, which know their device too, take a tenth of a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

CHANGES_ARGUMENT = re.compile(r"\w*[^_]_|__i\w+__|__setitem__")
"""Names of functions that change the argument that they return; a dropout of nothing returns it as it is."""

OF_THE_DEVICE = ("device", "is_meta", "is_cpu", "is_cuda")
"""Attributes of a tensor that tell where it is."""


class WritesIntoValues(Exception):
    """A function would write a tensor without values into one with values."""


TorchCall = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]
"""Function from a function of torch and its arguments to what it returns."""


def meta_call(model_tensors: Collection[int], device: Any) -> TorchCall:
    """A function that calls a function of torch on the meta device if an argument is there, or is the model's own.

    To the model, all tensors appear to be on its own device.

    Args:
        model_tensors: The `id`s of the parameters and buffers of the model.
        device: The device of the model.
    """
    import torch

    example, copies = torch.empty(0, device=device), dict[int, Any]()

    def copy(tensor: Any) -> Any:
        if tensor.is_meta:
            return tensor
        if id(tensor) not in model_tensors:
            return torch.empty_like(tensor, device="meta")
        if id(tensor) not in copies:
            copies[id(tensor)] = torch.empty_like(tensor, device="meta")
        return copies[id(tensor)]

    def on_meta(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("meta")
        return copy(value) if isinstance(value, torch.Tensor) else value

    def call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        tensors = [value for value in leaves((arguments, named)) if isinstance(value, torch.Tensor)]
        if not any(tensor.is_meta or id(tensor) in model_tensors for tensor in tensors):
            return function(*arguments, **named)
        if _reads_device(function):
            return function(example, *arguments[1:])
        _check_written(function, arguments, named)
        result = function(*replaced(arguments, on_meta), **replaced(named, on_meta))
        originals = {id(copies[id(tensor)]): tensor for tensor in tensors if id(tensor) in copies}
        return originals.get(id(result), result)

    return call


def _reads_device(function: Any) -> bool:
    """Whether a function reads an attribute of a tensor that depends on where the tensor is."""
    return (
        getattr(function, "__name__", "") == "__get__" and getattr(function.__self__, "__name__", "") in OF_THE_DEVICE
    )


def _check_written(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises WritesIntoValues if a function writes into a tensor with values, since they would be wrong then."""
    name = getattr(function, "__name__", "")
    written = [*arguments[:1], named.get("out")] if CHANGES_ARGUMENT.fullmatch(name) else [named.get("out")]
    if any(not getattr(tensor, "is_meta", True) for tensor in written):
        raise WritesIntoValues(f"{name} writes into a tensor with values")


def leaves(value: Any) -> list[Any]:
    """The values in nested containers, and the length of each list, tuple and mapping."""
    if isinstance(value, (list, tuple)):
        return [len(value), *(leaf for item in value for leaf in leaves(item))]
    if isinstance(value, Mapping):
        return leaves([*value.items()])
    return leaves((value.start, value.stop, value.step)) if isinstance(value, slice) else [value]


def replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Nested containers with each value replaced."""
    if isinstance(value, (list, tuple)):
        items = [replaced(item, replace) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {name: replaced(item, replace) for name, item in value.items()}
    if isinstance(value, slice):
        return slice(*(replaced(end, replace) for end in (value.start, value.stop, value.step)))
    return replace(value)
