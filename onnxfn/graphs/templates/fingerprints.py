"""Fingerprints of models: a digest of everything that a graph depends on, except weight values."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from attrs import fields, has

from onnxfn.graphs.layers.repeated_layers import elements_digest, module_bytes, tensor_type
from onnxfn.specs.errors import raise_no_memory
from onnxfn.specs.stored.serialize import to_plain
from onnxfn.specs.stored.trust import CODE_FIELDS

OWN = sys.stdlib_module_names.union(("onnxfn",))
"""Packages without a version of their own: Python's, whose version is a line, and onnxfn, whose source is."""

IGNORED_NAMES = ("__init__", "__setstate__", "___needs_generation_tag_patch", "smart_apply")
"""Attributes of a class that create its objects: torch and transformers add or replace them later."""

IGNORED_KEYS = (
    *("_name_or_path", "transformers_version", "architectures", "id2label", "label2id", "finetuning_task"),
    *("dtype", "torch_dtype"),
)
"""Keys of a configuration that do not change a graph, or that follow from the parameters."""


class NotHashable(Exception):
    """A value without a name or a text that would be the same in another process."""


def fingerprint(model: Any, *others: Any) -> str | None:
    """SHA-256 of everything that the graph of a model depends on except parameter values; None if undecidable.

    It covers the modules with their classes, attributes and functions, shapes and dtypes of parameters, values of
    buffers outside the checkpoint, the configuration, the versions of the packages that build graphs or define the
    model, and `others`: records and plain values. It is undecidable if code of the model or of a record is not from an
    installed package, whose version stands for it, if an attribute holds an unregistered module, if an object cannot be
    pickled, or if the configuration is not JSON.
    """
    try:
        bases = (base for module in model.modules() for base in type(module).__mro__)
        classes = [base for base in dict.fromkeys(bases) if base is not object]
        modules = dict.fromkeys(class_.__module__ for class_ in classes)
        packages = dict.fromkeys(name.partition(".")[0] for name in (*modules, *_modules_named_in(others)))
        lines = [json.dumps(to_plain(each), default=repr) for each in others]
        lines += [*package_versions(), *map(_version, packages)]
        config = getattr(model, "config", None)
        lines += [] if config is None else [f"{_name(type(config))} {_config_text(config)}"]
        lines.append(module_bytes(model, _stand_in, lambda *_: False).hex())
        for names in (*map(vars, classes), *(vars(sys.modules[module]) for module in modules)):
            lines.extend(_code_lines(names))
    except Exception as error:  # noqa: BLE001 - whatever cannot be written as text, the model is then traced
        raise_no_memory(error)
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def weights_digest(model: Any) -> str:
    """The SHA-256 of the names, shapes, dtypes and values of the parameters and buffers of a model."""
    state = model.state_dict()
    lines = (f"{name}: {tensor_type(state[name])} {elements_digest(state[name])}" for name in sorted(state))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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


def _stand_in(value: Any) -> Any:
    """The name of a class or function, with what it closes over; a configuration as text; None for other values."""
    if inspect.ismethod(value) or not (isinstance(value, type) or inspect.isroutine(value)):
        return _config_text(value) if hasattr(value, "to_dict") else None
    if not inspect.isfunction(value):
        return _name(value)
    return _name(value), value.__code__.co_firstlineno, [cell.cell_contents for cell in value.__closure__ or ()]


def _name(definition: Any) -> str:
    """A class or function of an installed package by its name; NotHashable for any other."""
    variables = getattr(definition, "__globals__", {})  # a decorator cannot change these
    module = str(variables.get("__name__") or getattr(definition, "__module__", None) or "builtins")
    if not _is_installed(module.partition(".")[0]):
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
    """The class or the functions of a value, also wrapped ones, as in a property; [] for any other value."""
    if isinstance(value, property):
        return [function for function in (value.fget, value.fset) if function is not None]
    if isinstance(value, (staticmethod, classmethod)):
        return _definitions_in(value.__func__)
    if isinstance(value, cached_property):
        return [value.func]
    return [value] if isinstance(value, (type, FunctionType, BuiltinFunctionType)) else []


@cache
def _is_installed(package: str) -> bool:
    """Whether a package is Python's, onnxfn or installed, so that no program writes its files."""
    if package in OWN:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


@cache
def _version(package: str) -> str:
    """The version of an installed package; "" for onnxfn and Python's own. NotHashable for any other package."""
    if not _is_installed(package):
        raise NotHashable
    return "" if package in OWN else f"{package} {version(package)}"


def _config_text(config: Any) -> str:
    """A configuration as JSON, without the keys that no graph depends on."""
    values = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    extra = {"attention": getattr(config, "_attn_implementation", None)}
    return json.dumps(_without_ignored_keys(values) | extra, sort_keys=True)


def _without_ignored_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    needed = {name: value for name, value in values.items() if name not in IGNORED_KEYS}
    return {name: _without_ignored_keys(each) if isinstance(each, Mapping) else each for name, each in needed.items()}


@cache
def package_versions() -> tuple[str, ...]:
    """The versions of the packages that build graphs and of Python, and a digest of onnxfn's own source."""
    # Another version of onnxfn may build another graph.
    own_source = hashlib.sha256(b"".join(file.read_bytes() for file in source_files())).hexdigest()
    packages = ("torch", "transformers", "onnx", "onnxscript", "onnx-ir", "numpy", "attrs")
    return (*(f"{name} {version(name)}" for name in packages), f"python {sys.version}", own_source)


def source_files() -> list[Path]:
    """The source files of onnxfn."""
    return sorted(Path(__file__).parents[2].rglob("*.py"))
