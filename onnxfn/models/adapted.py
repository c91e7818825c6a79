"""The model of an export with an adapter: its weights are the merged ones, computed when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.specs.errors import InvalidSpec, closest
from onnxfn.weights.adapters import AdaptedLayer, Adapter, read_adapter
from onnxfn.weights.updates import Update, row_norms, with_update

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
