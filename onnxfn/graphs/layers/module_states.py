"""The state of a module as bytes, without the values of its parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pickle import Pickler
from typing import Any

INTERNAL = (
    *("_parameters", "_buffers", "_modules", "training"),
    *("_weight_conversions", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    *("_flat_weights", "_flat_weight_refs", "name_or_path", "onnxfn_weights_from"),
)
"""Attributes of a module that are read elsewhere, or only state where its weights come from."""

Ignored = Callable[[str, Any], bool]
"""Function from the name and the value of an attribute to whether it is left out."""


def module_bytes(module: Any, stand_in: Callable[[Any], Any], ignored: Ignored) -> bytes:
    """Bytes that are equal for two modules only if they compute the same but for the values of their parameters.

    They hold the submodules, their classes and attributes, the shapes and dtypes of parameters and stored buffers, and
    the elements of all other tensors. An error of any type for a value that cannot be pickled, and for a parameter or a
    module that is not registered.
    """
    import torch

    paths = {id(inner): path for path, inner in module.named_modules()}

    def persistent_id(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return paths[id(value)]
        if isinstance(value, torch.nn.Parameter):
            raise TypeError("a parameter that is not registered")
        if isinstance(value, torch.Tensor):
            return tensor_type(value), elements_digest(value)
        if isinstance(value, (torch.dtype, torch.device)):
            return str(value)
        return ["set", *sorted(value, key=repr)] if isinstance(value, (set, frozenset)) else stand_in(value)

    stream = BytesIO()
    pickler: Any = Pickler(stream, protocol=4)
    pickler.fast = True  # a value is written the same way whether or not it is the same object as an earlier one
    pickler.persistent_id = persistent_id
    pickler.dump([line for path, inner in module.named_modules() for line in _lines(path, inner, ignored)])
    return stream.getvalue()


def _lines(path: str, module: Any, ignored: Ignored) -> Iterator[tuple[Any, ...]]:
    """The class, the attributes, the submodules and the tensors of a module."""
    yield path, type(module), list(module._modules)
    for name, value in vars(module).items():
        is_empty = isinstance(value, (dict, set, list, tuple)) and not value
        if name not in INTERNAL and not is_empty and not ignored(name, value):
            is_numbered = name in ("_forward_hooks", "_forward_pre_hooks")  # by how many hooks the process has
            yield path, name, list(value.values()) if is_numbered else value
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        yield path, name, tensor_type(tensor), tensor if name in module._non_persistent_buffers_set else None


def tensor_type(tensor: Any) -> str:
    """The dtype and the shape of a tensor as text."""
    return "none" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"


def elements_digest(tensor: Any) -> str:
    """A digest of a tensor's bytes, seen as integers since numpy lacks bfloat16."""
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()
