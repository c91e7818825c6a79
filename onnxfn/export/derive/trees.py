"""What holds tensors: arguments and results of a module, and caches of transformers, which it adds to in place."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.converters import Path

Tensors = Mapping[Path, Any]


def all_tensors(result: Any, path: Path = (), *, caches: bool = False) -> Tensors:
    """Every tensor of a result of `forward`, by its path; those of caches too if `caches`."""
    if hasattr(result, "shape") and hasattr(result, "dtype"):
        return {path: result}
    named = result if isinstance(result, Mapping) else fields_of(result) or made_of(result)
    named = (layers_of(result) if caches else None) or named
    steps = enumerate(result if isinstance(result, (tuple, list)) else ()) if named is None else named.items()
    return {
        tensor_path: tensor
        for step, field in steps
        for tensor_path, tensor in all_tensors(field, (*path, step), caches=caches).items()
    }


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of a named tuple, or those that make a dataclass; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return None


def made_of(result: Any) -> Mapping[str, Any] | None:
    """The attributes of an object that it was made of: of a Gaussian its parameters, not the mean that follows."""
    attributes = getattr(result, "__dict__", {})
    names = inspect.signature(type(result)).parameters if attributes and not isinstance(result, type) else ()
    return {name: attributes[name] for name in names if name in attributes} or None


Copies = list[tuple[Any, Any]]
"""Copies of caches, each with the cache."""


def is_cache(value: Any) -> bool:
    """Whether a value is a cache whose layers keep all tokens; it has no layers before its first call."""
    layers = getattr(value, "layers", None) if hasattr(value, "get_seq_length") else None
    return isinstance(layers, list) and {type(layer).__name__ for layer in layers} <= {"DynamicLayer"}


def layers_of(value: Any) -> Mapping[str, Mapping[int, Mapping[str, Any]]] | None:
    """The keys and values of each layer of a cache, by the path to them; None for anything else."""
    if not is_cache(value):
        return None
    layers = [(number, layer) for number, layer in enumerate(value.layers) if layer.is_initialized]
    return {"layers": {number: {"keys": layer.keys, "values": layer.values} for number, layer in layers}}


def with_copies(tree: Any, of: Callable[[Any], Any]) -> tuple[Any, Copies]:
    """A tree with `of(tensor)` in place of each tensor, in caches too; and the copies of its caches."""
    copies = Copies()

    def copied(leaf: Any) -> Any:
        if is_cache(leaf):
            copies.append((_copied(leaf, of), leaf))
            return copies[-1][0]
        return of(leaf) if hasattr(leaf, "detach") else leaf

    return torch_name("pytree").tree_map(copied, tree), copies


def begin(cache: Any, after: Any) -> None:
    """Gives a cache without layers, or with empty ones, the keys and values of no tokens; `after`: after a call."""
    import torch

    if not any(layer.is_initialized for layer in cache.layers):
        no_tokens = _copied(after, lambda each: torch.zeros((*each.shape[:-2], 0, each.shape[-1]), dtype=each.dtype))
        cache.layers = no_tokens.layers


def _copied(cache: Any, of: Callable[[Any], Any]) -> Any:
    """A copy of a cache with `of(tensor)` in place of each tensor."""
    copied = copy(cache)
    copied.layers = [copy(layer) for layer in cache.layers]
    for layer in (layer for layer in copied.layers if layer.is_initialized):
        layer.keys, layer.values = of(layer.keys), of(layer.values)
    return copied
