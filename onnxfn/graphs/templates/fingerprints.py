"""Fingerprints of models: a digest of everything that a graph depends on, except weight values.

Versions stand for code: those of the packages that the classes of a model come from. So a model has no fingerprint if a
class of it, or a function in a class or its module, is of another file, such as one that a program replaced.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MappingProxyType
from typing import Any

from attrs import fields, has

from onnxfn.specs.stored.serialize import to_plain
from onnxfn.specs.stored.trust import CODE_FIELDS

PACKAGE = Path(__file__).parents[2]
"""The folder of onnxfn."""

VERSIONED = ("torch", "transformers", "onnx", "onnxscript", "onnx-ir", "numpy", "attrs")
"""Packages on whose versions every graph depends."""

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
"""Types whose `repr` is equal for equal values alone."""

IGNORED_NAMES = ("__init__", "__setstate__", "___needs_generation_tag_patch", "smart_apply")
"""Attributes of a class that create its objects: torch adds or replaces them when it compiles.

transformers adds `smart_apply` to `torch.nn.Module` when it creates its first model; it initializes weights.
"""

IGNORED_KEYS = (
    *("_name_or_path", "transformers_version", "architectures", "id2label", "label2id", "finetuning_task"),
    *("dtype", "torch_dtype"),
)
"""Keys of a configuration that no graph depends on, or that the parameters show themselves."""

INTERNAL = (
    *("_parameters", "_buffers", "_modules", "training"),
    *("_weight_conversions", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    *("_flat_weights", "_flat_weight_refs", "name_or_path", "onnxfn_weights_from"),
)
"""Attributes of a module that are hashed elsewhere, or that only tell where its weights were loaded from."""

PICKLE_PROTOCOL = 4

PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
"""The folders of installed packages, in virtual environments and in those of the system, which may be joined."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
"""Attributes of a module whose keys are numbers that count the hooks of the process."""


class NotHashable(Exception):
    """A value without a name or a text that would be the same in another process."""


def fingerprint(model: Any, *others: Any) -> str | None:
    """SHA-256 of everything that the graph of a model depends on except parameter values; None if undecidable.

    It covers the modules, their classes and attributes, the functions in these classes and in the Python modules that
    define them, the shapes and dtypes of parameters, the values of buffers that are not in the checkpoint, the
    configuration, the versions of the packages that build graphs or define the model, and `others`, records and plain
    values. It is undecidable if a class or function of the model, or one that a record names, is not of an installed
    package; for a module that is stored in an attribute without being registered, for an object that cannot be pickled,
    and for a configuration that is no JSON.
    """
    try:
        bases = (base for module in model.modules() for base in type(module).__mro__)
        classes = [base for base in dict.fromkeys(bases) if base is not object]
        modules = dict.fromkeys(class_.__module__ for class_ in classes)
        packages = dict.fromkeys(map(_package, (*modules, *_modules_named_in(others))))
        lines = [*map(_plain_text, others), *package_versions(), *map(_version, packages)]
        lines.extend((_config(model), *_modules(model)))
        for names in (*map(vars, classes), *(vars(sys.modules[module]) for module in modules)):
            lines.extend(_code_lines(names))
    except (NotHashable, RecursionError, KeyError):  # a module of a class may be gone
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def weights_digest(model: Any) -> str:
    """The SHA-256 of the names, shapes, dtypes and values of the parameters and buffers of a model."""
    state = model.state_dict()
    lines = (f"{name}: {_tensor_type(state[name])} {_elements(state[name])}" for name in sorted(state))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _plain_text(value: Any) -> str:
    """A record or a plain value as JSON, which has every field that is specified."""
    return json.dumps(to_plain(value), default=repr)


def _modules_named_in(value: Any) -> Iterator[str]:
    """The modules whose functions records name as `package.module:function`, and repositories: `owner/repository`."""
    if isinstance(value, tuple):
        for item in value:
            yield from _modules_named_in(item)
    for field in fields(type(value)) if has(type(value)) else ():
        inner = getattr(value, field.name)
        if (type(value).__name__, field.name) in CODE_FIELDS and isinstance(inner, str) and {":", "/"} & {*inner}:
            yield inner.partition(":")[0]
        else:
            yield from _modules_named_in(inner)


def _modules(model: Any) -> Iterator[str]:
    """One line for each module, attribute, parameter and buffer."""
    registered = {id(module) for module in model.modules()}
    attributes = (list(vars(module).values()) for module in model.modules())
    if any(id(module) not in registered for values in attributes for module in _modules_in(values)):
        raise NotHashable
    for path, module in model.named_modules():
        yield f"{path}: {_name(type(module))}"
        yield from (f"{path}.{name} = {_text(value)}" for name, value in _attributes(module))
        yield from (f"{path}.{name}: {_tensor_type(tensor)}" for name, tensor in module._parameters.items())
        for name, tensor in module._buffers.items():
            computed = name in module._non_persistent_buffers_set
            yield f"{path}.{name}: {_tensor_type(tensor)} {_elements(tensor) if computed else ''}"


def _modules_in(value: Any) -> Iterator[Any]:
    """The modules inside a value. The parameters of one that is not registered could not be bound to the graph."""
    import torch

    if isinstance(value, torch.nn.Module):
        yield value
    elif inspect.ismethod(value):
        yield from _modules_in(value.__self__)
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _modules_in(item)


def _attributes(module: Any) -> list[tuple[str, Any]]:
    """The attributes of a module, without torch's internal ones and empty containers; hooks without their numbers."""
    attributes = [(name, value) for name, value in vars(module).items() if name not in INTERNAL and not _empty(value)]
    return [(name, list(value.values()) if name in HOOKS else value) for name, value in attributes]


def _empty(value: Any) -> bool:
    return isinstance(value, (dict, set, list, tuple)) and not value


def _tensor_type(tensor: Any) -> str:
    return "none" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"


def _elements(tensor: Any) -> str:
    """A digest of a tensor's bytes, seen as integers since numpy lacks bfloat16."""
    import torch

    if tensor is None:
        return ""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def _text(value: Any) -> str:
    """A text that is equal for two values only if they do the same."""
    if isinstance(value, PLAIN):
        return repr(value)
    return next((text for kinds, text in _texts().items() if isinstance(value, kinds)), _object)(value)


def _sequence(values: Any) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _mapping(values: Mapping[Any, Any]) -> str:
    return f"{{{', '.join(f'{_text(key)}: {_text(value)}' for key, value in values.items())}}}"


@cache
def _texts() -> Mapping[Any, Callable[[Any], str]]:
    """Types -> the function that writes a value of these types as text."""
    import torch

    return MappingProxyType(
        {
            (list, tuple): _sequence,
            (set, frozenset): lambda value: f"{{{', '.join(sorted(map(_text, value)))}}}",
            Mapping: _mapping,
            torch.Tensor: lambda value: f"{_tensor_type(value)} {_elements(value)}",
            torch.nn.Module: lambda value: f"module {_name(type(value))}",
            (torch.dtype, torch.device): str,
        }
    )


def _object(value: Any) -> str:
    """The text of a class, a function, a configuration, or any object: its class and what pickle would save of it."""
    if isinstance(value, type) or inspect.isroutine(value):
        return _function(value)
    if hasattr(value, "to_dict"):
        return _config_text(value)
    try:
        state = value.__reduce_ex__(PICKLE_PROTOCOL)
    except Exception as error:
        raise NotHashable from error
    return f"{_name(type(value))} {_text(state)}"


def _function(function: Any) -> str:
    """The text of a class or function: its name, the values that it closes over, and the object of a method."""
    if inspect.ismethod(function):
        return f"{_function(function.__func__)} of {_text(function.__self__)}"
    if "<locals>" not in function.__qualname__ or not inspect.isfunction(function):
        return _name(function)
    enclosed = [_cell_value(cell) for cell in function.__closure__ or ()]
    if any(True for _ in _modules_in(enclosed)):  # its parameters could not be bound to the graph
        raise NotHashable
    return f"{_name(function)} of line {function.__code__.co_firstlineno} with {_sequence(enclosed)}"


def _cell_value(cell: Any) -> Any:
    """The value of a variable that a function closes over."""
    try:
        return cell.cell_contents
    except ValueError as error:  # the variable has no value yet
        raise NotHashable from error


def _name(definition: Any) -> str:
    """A class or function of an installed package by its name; NotHashable for any other."""
    variables = getattr(definition, "__globals__", {})  # a decorator cannot change these
    module = str(variables.get("__name__") or getattr(definition, "__module__", None) or "builtins")
    if not _is_installed(_package(module)):
        raise NotHashable
    return f"{module}.{definition.__qualname__}"


def _code_lines(names: Mapping[str, Any]) -> Iterator[str]:
    """A line for each function, class and number among the attributes of a class or a module."""
    for name, value in names.items():
        if name not in IGNORED_NAMES and isinstance(value, (bool, int, float)):
            yield f"{name} = {value!r}"
        elif name not in IGNORED_NAMES:
            yield from (f"{name} = {_name(definition)}" for definition in _definitions_in(value))


def _definitions_in(value: Any) -> list[Any]:
    """The class or the functions that a value is or wraps, such as those of a property; [] for any other value."""
    if isinstance(value, property):
        return [function for function in (value.fget, value.fset) if function is not None]
    if isinstance(value, (staticmethod, classmethod)):
        return _definitions_in(value.__func__)
    if isinstance(value, cached_property):
        return [value.func]
    return [value] if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else []


def _package(module: str) -> str:
    return module.partition(".")[0]


@cache
def _is_installed(package: str) -> bool:
    """Whether a package is Python's, onnxfn or installed, so that no program writes its files."""
    if package in ("builtins", "onnxfn") or package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and not PACKAGE_FOLDERS.isdisjoint(Path(file).parts)


@cache
def _version(package: str) -> str:
    """The version of an installed package; "" for onnxfn and Python's own. NotHashable for any other package."""
    if not _is_installed(package):
        raise NotHashable
    if package in ("builtins", "onnxfn") or package in sys.stdlib_module_names:
        return ""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError as error:
        raise NotHashable from error


def _config(model: Any) -> str:
    config = getattr(model, "config", None)
    return "" if config is None else f"{_name(type(config))} {_config_text(config)}"


def _config_text(config: Any) -> str:
    """A configuration as JSON, without the keys that no graph depends on."""
    values = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    extra = {"attention": getattr(config, "_attn_implementation", None)}
    try:
        return json.dumps(_without_ignored_keys(values) | extra, sort_keys=True, default=_text)
    except (TypeError, ValueError) as error:  # keys of several types, or a value that contains itself
        raise NotHashable from error


def _without_ignored_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_ignored_keys(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if name not in IGNORED_KEYS
    }


def package_versions() -> list[str]:
    """The versions of the packages that build graphs and of Python, and a digest of onnxfn's own source."""
    return [*_versions(search_state()), f"python {sys.version}", _own_source()]


def search_state() -> tuple[tuple[str, int], ...]:
    """The folders that packages are imported from, with the times of their last changes: installations change them."""
    folders = [path or "." for path in sys.path]
    return tuple((path, Path(path).stat().st_mtime_ns) for path in folders if Path(path).is_dir())


@lru_cache(maxsize=1)
def _versions(_state: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The versions of packages, which take milliseconds to find; for ten thousand jobs they are looked up once."""
    return tuple(f"{name} {version(name)}" for name in VERSIONED)


@cache
def _own_source() -> str:
    """A digest of onnxfn's source files: another version of onnxfn may build another graph."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in source_files())).hexdigest()


def source_files() -> list[Path]:
    """The source files of onnxfn."""
    return sorted(PACKAGE.rglob("*.py"))
