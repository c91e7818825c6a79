"""Weights that are converted to another dtype, or merged with an adapter, when a function of torch reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.models.dtypes import dtypes_in, float_dtype, float_tensors, has_dtype
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.errors import InvalidSpec, closest
from onnxfn.weights.adapters import AdaptedLayer, Adapter, read_adapter
from onnxfn.weights.updates import Update, has_updates, row_norms, rows_of, update_of, weight_in_dtype, with_update

KINDS = "Linear, Conv1D, Embedding, Conv1d, Conv2d and Conv3d without groups"
"""The layers whose adapters are known."""


def with_adapter(model: Any, copied: Any, folder: str | Path | None) -> Any:
    """A copy of a model with the weights that an adapter makes of its own; the copy unchanged without an adapter.

    `copied` is the copy, which is changed, on the tensors of `model`, which are not. InvalidSpec if the adapter does
    not fit the model, or if the model could not be copied.
    """
    if folder is None:
        return copied
    if copied is model:
        raise InvalidSpec(
            f"{type(model).__name__} cannot be copied, so its weights cannot be merged with {folder}; "
            "merge them with PEFT (merge_and_unload) and export the merged model"
        )
    adapter = read_adapter(folder)
    modules = dict(copied.named_modules(remove_duplicate=False))
    layers = {_path(adapter, modules, name): layer for name, layer in adapter.layers.items()}
    for path in layers:
        _check_not_tied(adapter, copied, f"{path}.weight")
    for name, tensor in adapter.tensors.items():
        _replace(adapter, modules, name, tensor)
    for path, layer in layers.items():
        modules[path].register_parameter("weight", _updated(adapter, path, modules[path], layer))
    return copied


def _replace(adapter: Adapter, modules: Mapping[str, Any], name: str, tensor: Any) -> None:
    """Gives a parameter of the model the tensor that an adapter has for it."""
    import torch

    layer, _, parameter = name.rpartition(".")
    path = _path(adapter, modules, layer)
    old = modules[path]._parameters.get(parameter)
    if old is None or old.shape != tensor.shape:
        shape = "no such parameter" if old is None else f"one of the shape {list(old.shape)}"
        raise InvalidSpec(f"the adapter {adapter.folder} has {name} {list(tensor.shape)}; the model has {shape}")
    values = tensor.to(torch.promote_types(tensor.dtype, old.dtype))
    modules[path].register_parameter(parameter, torch.nn.Parameter(values, requires_grad=old.requires_grad))


def _path(adapter: Adapter, modules: Mapping[str, Any], name: str) -> str:
    """The path of the layer that has a name in an adapter, with or without the prefix of a model with a head."""
    ends = [path for path in modules if path and (path.endswith(f".{name}") or name.endswith(f".{path}"))]
    longest = max(map(len, ends), default=0)
    matches = [name] if name in modules else [path for path in ends if len(path) == longest]
    if len(matches) != 1:
        many = f"several: {', '.join(matches)}" if matches else "none of this name"
        raise InvalidSpec(
            f"the adapter {adapter.folder} has weights for {name}; the model has {many}{closest(name, modules)}"
        )
    return matches[0]


def _check_not_tied(adapter: Adapter, model: Any, name: str) -> None:
    """Raises InvalidSpec if a weight is tied, and the adapter has no other weight for the layer that shares it."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    tied = [path for path, weight in parameters.items() if weight is parameters.get(name)]
    others = [path for path in tied if path not in (name, *adapter.tensors)]
    if others:
        raise InvalidSpec(
            f"the adapter {adapter.folder} changes {name}, which is tied to {others[0]}; "
            "merge it with PEFT (merge_and_unload) and export the merged model"
        )


def _updated(adapter: Adapter, path: str, module: Any, layer: AdaptedLayer) -> Any:
    """The weight of a layer with the update of an adapter. InvalidSpec if the layer cannot have it."""
    is_swapped = type(module).__name__ in ("Conv1D", "Embedding") or _is_embedding(module)
    left, right = (layer.a.T, layer.b.T) if is_swapped else (layer.b.flatten(1), layer.a.flatten(1))
    weight: Any = getattr(module, "weight", None)
    expected = (len(weight), prod(weight.shape[1:])) if weight is not None and weight.dim() > 1 else None
    if not _is_known(module) or (len(left), right.shape[1]) != expected:
        shape = "" if weight is None else f" of the shape {list(weight.shape)}"
        raise InvalidSpec(
            f"the adapter {adapter.folder} changes {path}, a {type(module).__name__}{shape}, by a matrix of the shape "
            f"{[len(left), right.shape[1]]}; known are: {KINDS}"
        )
    update = Update(left, right, layer.scale)
    if layer.magnitude is None:
        return with_update(weight, update)
    if is_swapped or weight.dim() != 2:  # noqa: PLR2004 - rows and columns
        raise InvalidSpec(f"the adapter {adapter.folder} has DoRA for {path}, a {type(module).__name__}, not a Linear")
    norms = row_norms(with_update(weight, update))
    return with_update(weight, evolve(update, factor=layer.magnitude.reshape(-1, 1) / norms))


def _is_known(module: Any) -> bool:
    import torch

    linear = isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
    convolution = isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d) and module.groups == 1
    return linear or convolution or _is_embedding(module)


def _is_embedding(module: Any) -> bool:
    import torch

    return isinstance(module, torch.nn.Embedding)


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
