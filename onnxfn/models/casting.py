"""Weights that are converted or read from elsewhere when a function of torch needs them, or merged with an adapter."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.models.dtypes import dtypes_in, float_tensors, has_dtype
from onnxfn.models.model_state import model_copy, with_plain_tensors
from onnxfn.models.read_weights import looked_up, read, rows_of
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.errors import InvalidSpec, closest
from onnxfn.weights.adapters import AdaptedLayer, Adapter, merged_weight, read_adapter


def adapted_copy(model: Any, folder: str | Path | None) -> Any:
    """A copy of a model on its tensors, or on plain ones if they are not; with an adapter, its weights are merged."""
    copied = model_copy(with_plain_tensors(model))
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
        modules[path].register_parameter("weight", _merged(adapter, path, modules[path], layer))
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


def _merged(adapter: Adapter, path: str, module: Any, layer: AdaptedLayer) -> Any:
    """The weight of a layer, merged with an adapter. InvalidSpec if the layer cannot be."""
    import torch

    is_swapped = type(module).__name__ == "Conv1D" or isinstance(module, torch.nn.Embedding)
    left, right = (layer.a.T, layer.b.T) if is_swapped else (layer.b.flatten(1), layer.a.flatten(1))
    weight: Any = getattr(module, "weight", None)
    expected = (len(weight), prod(weight.shape[1:])) if weight is not None and weight.dim() > 1 else None
    layers = torch.nn.Linear | torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d
    is_known = is_swapped or (isinstance(module, layers) and getattr(module, "groups", 1) == 1)
    if not is_known or (len(left), right.shape[1]) != expected:
        shape = "" if weight is None else f" of the shape {list(weight.shape)}"
        raise InvalidSpec(
            f"the adapter {adapter.folder} changes {path}, a {type(module).__name__}{shape}, by a matrix of the shape "
            f"{[len(left), right.shape[1]]}; known are: Linear, Conv1D, Embedding, Conv1d, Conv2d and Conv3d without "
            "groups"
        )
    if layer.magnitude is not None and (is_swapped or weight.dim() != 2):  # noqa: PLR2004 - rows and columns
        raise InvalidSpec(f"the adapter {adapter.folder} has DoRA for {path}, a {type(module).__name__}, not a Linear")
    return merged_weight(weight, left, right, layer)


ATTRIBUTES = "shape ndim device layout requires_grad grad is_cpu is_cuda is_meta is_nested is_sparse"
METHODS = "size dim numel stride is_floating_point is_complex is_contiguous get_device"
"""Attributes and methods of a tensor that are the same in any float dtype."""

SELECTIONS = "select narrow index_select unbind split chunk"
"""Methods of a tensor that return parts of it. The parts are converted, not the tensor: one expert, not all."""

BLOCK = 1 << 22
"""The most elements of the weight of a linear layer that are converted at once."""

Dtypes = Mapping[int, Any]
"""From the identity of each weight to convert or to read to the torch dtype to compute in."""

Call = Callable[[Dtypes, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Calls a function of torch some of whose arguments are weights."""


def cast_on_use(model: Any, dtype: Any) -> AbstractContextManager[None]:
    """A context in which a torch function that reads a weight converts it to the dtype that `dtypes_in` gives it."""
    keeps = dtype is None or has_dtype(model, str(dtype).removeprefix("torch."))
    tensors = {id(each): each for each in float_tensors(model)}
    wanted = {key: each.dtype for key, each in tensors.items()} if keeps else dtypes_in(model, dtype)
    dtypes = {key: wanted[key] for key, each in tensors.items() if each.dtype != wanted[key] or rows_of(each)}
    calls = _calls()

    def call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not _reads(dtypes, (*arguments, *named.values())):
            return function(*arguments, **named)
        chosen: Call = calls.get(function, _on_converted)
        return chosen(dtypes, function, arguments, named)

    return torch_functions(call) if dtypes else nullcontext()


@cache
def _calls() -> Mapping[Any, Call]:
    """From a function of torch to how it is called; the others by `_on_converted`."""
    import torch

    tensor, functions = torch.Tensor, torch.nn.functional
    return MappingProxyType(
        {
            **{getattr(tensor, name).__get__: _unchanged for name in ATTRIBUTES.split()},
            **{getattr(tensor, name): _unchanged for name in METHODS.split()},
            **{getattr(tensor, name): _converted_result for name in SELECTIONS.split()},
            tensor.__getitem__: _selected,
            tensor.dtype.__get__: lambda dtypes, _, arguments, __: dtypes[id(arguments[0])],
            functions.embedding: _looked_up,
            torch.embedding: _looked_up,
            functions.linear: _linear,
        }
    )


def _reads(dtypes: Dtypes, values: Iterable[Any]) -> bool:
    """Whether a weight is among the arguments of a function, or in a list among them."""
    return any(id(each) in dtypes or (isinstance(each, (list, tuple)) and _reads(dtypes, each)) for each in values)


def _converted(dtypes: Dtypes, value: Any) -> Any:
    """A weight in the dtype to compute in, or a list of values with its weights in it; another value unchanged."""
    if isinstance(value, (list, tuple)) and _reads(dtypes, value):
        return type(value)(_converted(dtypes, item) for item in value)
    return read(value, dtypes[id(value)]) if id(value) in dtypes else value


def _unchanged(_: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    return function(*arguments, **named)


def _on_converted(dtypes: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    """The result of a function for converted weights."""
    values = [_converted(dtypes, value) for value in arguments]
    return function(*values, **{name: _converted(dtypes, value) for name, value in named.items()})


def _converted_result(dtypes: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    """The converted result of a function that returns parts of a weight."""
    weight = next(value for value in (*arguments, *named.values()) if id(value) in dtypes)
    if rows_of(weight):
        return _on_converted(dtypes, function, arguments, named)
    dtype, result = dtypes[id(weight)], function(*arguments, **named)
    return type(result)(part.to(dtype) for part in result) if isinstance(result, (list, tuple)) else result.to(dtype)


def _selected(dtypes: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    """Items of a weight along its first axis; of one that is read, these alone: one expert, not all."""
    import torch

    weight, index = arguments
    if id(weight) in dtypes and rows_of(weight):
        if isinstance(index, slice) and index.step is None:
            return read(weight, dtypes[id(weight)], index)
        if isinstance(index, int) or (isinstance(index, torch.Tensor) and index.dtype in (torch.int32, torch.int64)):
            return looked_up(weight, dtypes[id(weight)], torch.as_tensor(index) % len(weight))
    return _converted_result(dtypes, function, arguments, named)


def _looked_up(dtypes: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    """The embeddings of tokens. Of a weight that is read, their rows alone are read."""
    import torch

    tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
    weights = [value for value in tensors if id(value) in dtypes and rows_of(value)]
    if len(weights) != 1 or any((*arguments[3:4], named.get("max_norm"))):
        return _converted_result(dtypes, function, arguments, named)
    (indices,) = (value for value in tensors if value is not weights[0])
    return looked_up(weights[0], dtypes[id(weights[0])], indices)


def _linear(dtypes: Dtypes, function: Any, arguments: Any, named: Any) -> Any:
    """The result of a linear layer, some columns after the other if its weight is large."""
    import torch

    values, matrix, bias = (*arguments, None, None)[:3]
    if named or id(matrix) not in dtypes or matrix.numel() <= BLOCK:
        return _on_converted(dtypes, function, arguments, named)
    rows, dtype = BLOCK // matrix.shape[1] + 1, dtypes[id(matrix)]
    parts = [slice(start, start + rows) for start in range(0, len(matrix), rows)]
    biases = [None if bias is None else read(bias, dtype, part) for part in parts]
    pairs = zip(parts, biases, strict=True)
    return torch.cat([function(values, read(matrix, dtype, part), of_part) for part, of_part in pairs], dim=-1)
