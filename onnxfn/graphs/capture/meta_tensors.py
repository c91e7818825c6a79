"""Calls of torch on tensors of the meta device, which have shapes and no values, in place of those of a model.

A call takes some microseconds: torch's fake tensors, which know their device too, take a tenth of a millisecond. Some
functions take as long on the meta device, since torch finds their shapes in Python. Layers that are equal call them on
equal shapes: each is called once for arguments of the same layouts.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

CHANGES_ARGUMENT = re.compile(r"\w*[^_]_|__i\w+__|__setitem__")
"""Names of functions that change the argument that they return; a dropout of nothing returns it as it is."""

PLAIN = (bool, int, float, complex, str, types.NoneType, types.EllipsisType)
"""Types of arguments that their text describes."""

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
"""Types of functions of torch."""

CONTAINERS = (list, tuple, dict, slice)
"""Types of the arguments of functions of torch that have values inside."""

OF_THE_DEVICE = ("device", "is_meta", "is_cpu", "is_cuda")
"""Attributes of a tensor that tell where it is."""

OF_THE_LAYOUT = ("shape", "ndim", "dtype")
"""Attributes of a tensor that are the same wherever it is."""


class WritesIntoValues(Exception):
    """A function would write a tensor without values into one with values."""


@frozen
class Layout:
    """What there is to know of a tensor but its values."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: Any
    is_meta: bool


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

    example, copies, results = torch.empty(0, device=device), dict[int, Any](), dict[Any, Any]()

    on_meta = _to_meta(model_tensors, copies)

    def call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if _attribute(function) in OF_THE_LAYOUT:
            return function(*arguments)
        tensors = [value for value in leaves((arguments, named)) if isinstance(value, torch.Tensor)]
        if not any(tensor.is_meta or id(tensor) in model_tensors for tensor in tensors):
            return function(*arguments, **named)
        if _attribute(function) in OF_THE_DEVICE:
            return function(example, *arguments[1:])
        known = _described((function, arguments, named))
        if known in results:
            return _again(results[known])
        _check_written(function, arguments, named)
        result = function(*replaced(arguments, on_meta), **replaced(named, on_meta))
        originals = {id(copies[id(tensor)]): tensor for tensor in tensors if id(tensor) in copies}
        if _has_layouts(result) and not {*map(id, leaves(result))} & {*originals, *map(id, tensors)}:
            results[known] = result
        return originals.get(id(result), result)

    return call


def _to_meta(model_tensors: Collection[int], copies: dict[int, Any]) -> Callable[[Any], Any]:
    """A function from an argument to the same on the meta device. `copies` keeps those of the tensors of the model."""
    import torch

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

    return on_meta


def _described(value: Any) -> Any:
    """A value in a form that can be compared, in which tensors are layouts. Values of unknown types equal nothing."""
    import torch

    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return _layout(value)
    if isinstance(value, (*PLAIN, *FUNCTIONS)):
        return type(value), value
    if isinstance(value, (list, tuple)):
        return type(value), *map(_described, value)
    if isinstance(value, dict):
        return dict, *((name, _described(item)) for name, item in value.items())
    if isinstance(value, slice):
        return slice, value.start, value.stop, value.step
    known = isinstance(value, (torch.dtype, torch.device, torch.memory_format, torch.layout))
    return value if known else object()


def _layout(tensor: Any) -> Layout:
    return Layout(tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.is_meta)


def _again(result: Any) -> Any:
    """New tensors of the layouts of those that an equal call returned."""
    return result.detach() if not isinstance(result, (list, tuple)) else type(result)(map(_again, result))


def _has_layouts(result: Any) -> bool:
    """Whether layouts are all that there is to know of a result: it is a tensor on the meta device, or some of them."""
    import torch

    tensors = result if type(result) in (list, tuple) else (result,)
    return all(type(tensor) is torch.Tensor and tensor.is_meta for tensor in tensors)


def _attribute(function: Any) -> str:
    """The name of the attribute of a tensor that a function reads; empty if it reads none."""
    reads = getattr(function, "__name__", "") == "__get__"
    return getattr(function.__self__, "__name__", "") if reads else ""


def _check_written(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises WritesIntoValues if a function writes into a tensor with values, since they would be wrong then."""
    name = getattr(function, "__name__", "")
    written = [*arguments[:1], named.get("out")] if CHANGES_ARGUMENT.fullmatch(name) else [named.get("out")]
    if any(not getattr(tensor, "is_meta", True) for tensor in written):
        raise WritesIntoValues(f"{name} writes into a tensor with values")


def leaves(value: Any) -> list[Any]:
    """The values in nested containers, and the length of each list, tuple and dict."""
    if isinstance(value, dict):
        return leaves([*value.items()])
    if isinstance(value, slice):
        return leaves((value.start, value.stop, value.step))
    if not isinstance(value, (list, tuple)):
        return [value]
    result: list[Any] = [len(value)]
    for item in value:
        if isinstance(item, CONTAINERS):
            result.extend(leaves(item))
        else:
            result.append(item)
    return result


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
