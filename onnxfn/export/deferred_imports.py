"""Modules that a process of the command line imports at the first call of one of their functions.

transformers and torch import them for training alone: 700 modules, about a tenth of the time of a small export.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

DEFERRED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "scipy.optimize": ("linear_sum_assignment",),  # the losses of detectors
        "networkx": ("DiGraph",),  # which activations a backward pass computes again
        "torch.distributed.checkpoint.hf_storage": ("HuggingFaceStorageReader", "HuggingFaceStorageWriter"),
    }
)
"""From a module to the names that another module imports from it; each is only called, never compared."""


def defer_imports(deferred: Mapping[str, Sequence[str]] = DEFERRED) -> None:
    """Puts a stand-in in the place of each module that is installed and not imported yet.

    The first use of a stand-in imports the module, which takes its place. Only a program may call this: it changes what
    `import` gives to everyone in the process.
    """
    for name, functions in deferred.items():
        package = None if name in sys.modules else find_spec(name.partition(".")[0])
        if package is not None:
            sys.modules[name] = _stand_in(name, functions, package)


def _stand_in(name: str, functions: Sequence[str], package: ModuleSpec) -> ModuleType:
    """A module whose functions, and whatever else is read from it, import the module of that name."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    folders = [Path(folder, *name.split(".")[1:]) for folder in package.submodule_search_locations or ()]
    if any(folder.is_dir() for folder in folders):
        module.__path__ = [str(folder) for folder in folders]

    def real() -> ModuleType:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        return import_module(name)

    def read(attribute: str) -> Any:
        if attribute.startswith("__"):  # Python looks for these in every module
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return getattr(real(), attribute)

    module.__getattr__ = read  # type: ignore[method-assign]
    for function in functions:
        setattr(module, function, _called_later(real, function))
    return module


def _called_later(module: Callable[[], ModuleType], function: str) -> Callable[..., Any]:
    """A function that is looked up when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(module(), function)(*arguments, **options)

    return call
