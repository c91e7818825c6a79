"""A model that computes in another float dtype than that of its weights, without a second copy of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from onnxfn.models.dtypes import dtypes_in, float_dtype, float_tensors, has_dtype
from onnxfn.models.torch_modes import torch_functions
from onnxfn.weights.updates import has_updates, rows_of, update_of, weight_in_dtype

ATTRIBUTES = "shape ndim device layout requires_grad grad is_cpu is_cuda is_meta is_nested is_sparse"
METHODS = "size dim numel stride is_floating_point is_complex is_contiguous get_device"
"""Attributes and methods of a tensor that are the same in any float dtype."""

SELECTIONS = "__getitem__ select narrow index_select unbind split chunk"
"""Methods of a tensor that return parts of it. The parts are converted, not the tensor: one expert, not all."""

PRODUCTS = "mm matmul bmm addmm baddbmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d"
"""Functions of torch whose result never views an argument, so that converted arguments can share one memory."""

BLOCK = 1 << 22
"""The most elements of the weight of a linear layer that are converted at once."""


@frozen(eq=False)
class Weights:
    """The weights of a model that have another dtype than the one to compute in, or that an adapter changes.

    Attributes:
        dtypes: From the identity of a weight to its torch dtype to compute in.
        memory: Memory for the converted weights of one product, enlarged where that is needed. New memory for each
            would take ten times as long as the conversion.
    """

    dtypes: Mapping[int, Any]
    memory: Any = field(repr=False)


Call = Callable[[Weights, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Calls a function of torch some of whose arguments are weights."""


@contextmanager
def cast_on_use(model: Any, dtype: Any) -> Iterator[None]:
    """A context in which the float weights of a model have a torch dtype for every function of torch that reads them.

    A weight is converted when a function reads it, and the converted weight is released when the function ends. So a
    model of bfloat16 weights computes in float32 in the memory of one weight. The weights themselves do not change.
    Weights that the model keeps in float32 have that: see `dtypes_in`. Nothing is done if all parameters have the
    dtype, or if that is None. The weights that an adapter changes are merged when they are read, in any case.
    """
    import torch

    if (dtype is None or has_dtype(model, str(dtype).removeprefix("torch."))) and not has_updates(model):
        yield
        return
    dtype = dtype or float_dtype(model)
    wanted, tensors = dtypes_in(model, dtype), float_tensors(model)
    dtypes = {
        id(each): wanted[id(each)] for each in tensors if each.dtype != wanted[id(each)] or update_of(each) is not None
    }
    weights = Weights(dtypes, torch.empty(0, dtype=dtype))
    calls = _calls()

    def call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not _reads(dtypes, (*arguments, *named.values())):
            return function(*arguments, **named)
        chosen: Call = calls.get(function, _on_converted)
        return chosen(weights, function, arguments, named)

    with torch_functions(call):
        yield


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """`cast_on_use` in float32: a model whose weights stay in the 16 bits of its checkpoint takes inputs in float32."""
    import torch

    with cast_on_use(model, torch.float32):
        yield


@cache
def _calls() -> Mapping[Any, Call]:
    """From a function of torch to how it is called; the others by `_on_converted`."""
    import torch

    tensor, functions = torch.Tensor, torch.nn.functional
    products = [getattr(owner, name) for owner in (torch, tensor) for name in PRODUCTS.split() if hasattr(owner, name)]
    return MappingProxyType(
        {
            **{getattr(tensor, name).__get__: _unchanged for name in ATTRIBUTES.split()},
            **{getattr(tensor, name): _unchanged for name in METHODS.split()},
            **{getattr(tensor, name): _converted_result for name in SELECTIONS.split()},
            **dict.fromkeys(products, _product),
            tensor.dtype.__get__: lambda weights, _, arguments, __: weights.dtypes[id(arguments[0])],
            functions.embedding: _converted_result,
            torch.embedding: _converted_result,
            functions.linear: _linear,
        }
    )


def _reads(dtypes: Mapping[int, Any], values: Iterable[Any]) -> bool:
    """Whether a weight is among the arguments of a function, or in a list among them."""
    return any(
        id(value) in dtypes or (isinstance(value, (list, tuple)) and any(id(item) in dtypes for item in value))
        for value in values
    )


def _converted(weights: Weights, value: Any) -> Any:
    """A weight in the dtype to compute in, or a list of values with its weights in it; another value unchanged."""
    if isinstance(value, (list, tuple)) and _reads(weights.dtypes, value):
        return type(value)(_converted(weights, item) for item in value)
    return weight_in_dtype(value, weights.dtypes[id(value)]) if id(value) in weights.dtypes else value


def _unchanged(_: Weights, function: Any, arguments: Any, named: Any) -> Any:
    return function(*arguments, **named)


def _on_converted(weights: Weights, function: Any, arguments: Any, named: Any) -> Any:
    """The result of a function for converted weights."""
    values = [_converted(weights, value) for value in arguments]
    return function(*values, **{name: _converted(weights, value) for name, value in named.items()})


def _converted_result(weights: Weights, function: Any, arguments: Any, named: Any) -> Any:
    """The converted result of a function that returns parts of a weight."""
    if any(update_of(value) is not None for value in (*arguments, *named.values())):
        return _on_converted(weights, function, arguments, named)
    result, dtype = function(*arguments, **named), _dtype(weights, (*arguments, *named.values()))
    if isinstance(result, (list, tuple)):
        return type(result)(part.to(dtype) for part in result)
    return result.to(dtype)


def _dtype(weights: Weights, values: Iterable[Any]) -> Any:
    """The torch dtype to compute in of the first weight among the arguments of a function."""
    return next(weights.dtypes[id(value)] for value in values if id(value) in weights.dtypes)


def _product(weights: Weights, function: Any, arguments: Any, named: Any) -> Any:
    """The result of a function that shares no memory with its arguments."""
    values = (*arguments, *named.values())
    read = [value for value in values if id(value) in weights.dtypes]
    moved = iter(_in_memory(weights, read, _dtype(weights, read)))
    values = tuple(next(moved) if id(value) in weights.dtypes else value for value in values)
    return function(*values[: len(arguments)], **dict(zip(named, values[len(arguments) :], strict=True)))


def _linear(weights: Weights, function: Any, arguments: Any, named: Any) -> Any:
    """The result of a linear layer, some columns after the other if its weight is large."""
    import torch

    values, matrix, bias = (*arguments, None, None)[:3]
    if named or id(matrix) not in weights.dtypes or matrix.numel() <= BLOCK:
        return _product(weights, function, arguments, named)
    rows = BLOCK // matrix.shape[1] + 1
    columns = []
    for start in range(0, len(matrix), rows):
        part = slice(start, start + rows)
        rows_and_bias = [rows_of(matrix, part)] if bias is None else [rows_of(matrix, part), bias[part]]
        columns.append(function(values, *_in_memory(weights, rows_and_bias, weights.dtypes[id(matrix)])))
    return torch.cat(columns, dim=-1)


def _in_memory(weights: Weights, tensors: Sequence[Any], dtype: Any) -> list[Any]:
    """Copies of tensors in a dtype, one after the other in `weights.memory` if that has the dtype."""
    import torch

    if dtype != weights.memory.dtype:
        return [weight_in_dtype(tensor, dtype) for tensor in tensors]
    total = sum(tensor.numel() for tensor in tensors)
    if total > weights.memory.numel():
        weights.memory.set_(torch.empty(total, dtype=dtype))
    free, copies = weights.memory, []
    for tensor in tensors:
        values = tensor if update_of(tensor) is None else weight_in_dtype(tensor, dtype)
        copies.append(free[: tensor.numel()].view(tensor.shape).copy_(values))
        free = free[tensor.numel() :]
    return copies
