"""Fingerprints: everything about a model that its graph depends on, in one line; the values of parameters excepted."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

PINNED = ("torch", "transformers", "onnx", "onnxscript", "onnx-ir", "numpy", "attrs")
"""Packages whose code is known by their version."""

IGNORED_KEYS = (
    *("_name_or_path", "transformers_version", "architectures", "id2label", "label2id", "finetuning_task"),
    *("dtype", "torch_dtype"),
)
"""What a configuration says that no graph depends on, or that the parameters say themselves."""

INTERNAL = (
    *("_parameters", "_buffers", "_modules", "training"),
    *("_weight_conversions", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    *("_flat_weights", "_flat_weight_refs"),
)
"""Attributes of a module that are told otherwise, or tell of nothing but how its weights were loaded from a file."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
"""Attributes of a module whose keys count the hooks of the whole process."""

PLAIN = (bool, int, float, str, bytes, type(None))


def fingerprint(model: Any, *beside: Any) -> str | None:
    """A line that two models share only if their graphs are the same; None when nobody can tell.

    It is of the modules, their attributes and sources, the shapes and types of parameters, the values of tables that
    are not stored, the configuration, the versions of what makes graphs, and whatever stands `beside`. Nobody can tell
    of a model that others hook into, or that holds functions made at run time, but by a package that a version tells.
    """
    try:
        told = [*map(repr, beside), *package_versions(), _config(model), *_modules(model)]
    except (NotHashable, RecursionError):
        return None
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


class NotHashable(Exception):
    """Something that has no name and no value to be told by."""


def _modules(model: Any) -> Iterator[str]:
    registered = {id(module) for module in model.modules()}
    if any(id(one) not in registered for module in model.modules() for one in _held(list(vars(module).values()))):
        raise NotHashable
    for path, module in model.named_modules():
        yield f"{path}: {_code(type(module))}"
        yield from (f"{path}.{name} = {_value(value)}" for name, value in _said(module))
        yield from (f"{path}.{name}: {_tensor(tensor)}" for name, tensor in module._parameters.items())
        for name, tensor in module._buffers.items():
            table = name in module._non_persistent_buffers_set
            yield f"{path}.{name}: {_tensor(tensor)} {_elements(tensor) if table else ''}"


def _held(value: Any) -> Iterator[Any]:
    """The modules in a value: one that is held and not registered has parameters that nobody binds."""
    import torch

    if isinstance(value, torch.nn.Module):
        yield value
    elif inspect.ismethod(value):
        yield from _held(value.__self__)
    elif isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _held(one)


def _said(module: Any) -> list[tuple[str, Any]]:
    """The attributes of a module, those of torch's own that are empty left out; hooks without their running numbers."""
    there = [(name, value) for name, value in vars(module).items() if name not in INTERNAL and not _empty(value)]
    return [(name, list(value.values()) if name in HOOKS else value) for name, value in there]


def _empty(value: Any) -> bool:
    return isinstance(value, (dict, set, list, tuple)) and not value


def _tensor(tensor: Any) -> str:
    return "none" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"


def _elements(tensor: Any) -> str:
    """A digest of a tensor's bytes; numpy lacks some of torch's types."""
    import torch

    if tensor is None:
        return ""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def _value(value: Any) -> str:
    """A value as text that equals another's only if they do the same."""
    if isinstance(value, PLAIN):
        return repr(value)
    return next((told for kinds, told in _kinds().items() if isinstance(value, kinds)), _other)(value)


def _each(values: Any) -> str:
    return f"[{', '.join(map(_value, values))}]"


def _pairs(values: Mapping[Any, Any]) -> str:
    return f"{{{', '.join(f'{_value(key)}: {_value(one)}' for key, one in values.items())}}}"


@cache
def _kinds() -> Mapping[Any, Callable[[Any], str]]:
    """How a value of a type is told."""
    import torch

    return MappingProxyType(
        {
            (list, tuple): _each,
            (set, frozenset): lambda value: f"{{{', '.join(sorted(map(_value, value)))}}}",
            Mapping: _pairs,
            torch.Tensor: lambda value: f"{_tensor(value)} {_elements(value)}",
            torch.nn.Module: lambda value: f"module {_code(type(value))}",
            (torch.dtype, torch.device): str,
        }
    )


def _other(value: Any) -> str:
    if isinstance(value, type) or inspect.isroutine(value):
        return _code(value)
    if hasattr(value, "to_dict"):
        return _config_of(value)
    if hasattr(value, "__dict__"):
        return f"{_code(type(value))} {_value(vars(value))}"
    raise NotHashable


def _code(made: Any) -> str:
    """A class or a function by its name, and by its source where no version tells it; a method also by whose it is."""
    if inspect.ismethod(made):
        return f"{_code(made.__func__)} of {_value(made.__self__)}"
    module = made.__module__ or "builtins"
    name = f"{module}.{made.__qualname__} {_source(module)}"
    if "<locals>" not in made.__qualname__ and not getattr(made, "__closure__", None):
        return name
    if not inspect.isfunction(made) or not _versioned(module):
        raise NotHashable
    around = [_inside(one) for one in made.__closure__ or ()]
    if any(True for _ in _held(around)):  # whose parameters nobody binds, or one of several alike
        raise NotHashable
    return f"{name} of line {made.__code__.co_firstlineno} with {_each(around)}"


def _inside(cell: Any) -> Any:
    """What a function has of the one that it was made in."""
    try:
        return cell.cell_contents
    except ValueError as problem:  # not there yet
        raise NotHashable from problem


def _versioned(module: str) -> bool:
    package = module.partition(".")[0]
    return package in (*PINNED, "builtins") or package in sys.stdlib_module_names


@cache
def _source(module: str) -> str:
    """A digest of a module's file; empty for those that a version tells."""
    if _versioned(module):
        return ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        raise NotHashable
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _config(model: Any) -> str:
    config = getattr(model, "config", None)
    return "" if config is None else _config_of(config)


def _config_of(config: Any) -> str:
    told = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    extra = {"attention": getattr(config, "_attn_implementation", None)}
    return json.dumps(_without(told) | extra, sort_keys=True, default=str)


def _without(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without(value) if isinstance(value, Mapping) else value
        for name, value in told.items()
        if name not in IGNORED_KEYS
    }


def package_versions() -> list[str]:
    """The versions of what makes graphs, and of Python."""
    return [f"{name} {version(name)}" for name in PINNED] + [f"python {sys.version}", _own_source()]


@cache
def _own_source() -> str:
    """A digest of this package: a graph that an older one made is not one that this one makes."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
