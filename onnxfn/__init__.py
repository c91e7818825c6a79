"""Export PyTorch models to ONNX: specs are values, edits are functions, every export is checked.

`__init__.pyi` says where each public name lies. A name is imported at its first use, so `import onnxfn` itself is fast.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

# The folder has the name of a function. Imported here, it never replaces the function later.
from onnxfn import export
from onnxfn.specs.version import VERSION

del export

__version__ = VERSION


def _places(stub: str) -> Mapping[str, str]:
    """From each name that a stub imports to the module that it imports the name from."""
    imports = (node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom))
    return MappingProxyType({alias.name: str(node.module) for node in imports for alias in node.names})


PLACES = _places(Path(__file__).with_suffix(".pyi").read_text())
"""From a public name to its module."""

__all__ = tuple(PLACES)


@cache
def __getattr__(name: str) -> Any:
    """The public name, imported at its first use; a function has the errors of public calls."""
    if name not in PLACES:
        # With `name` and `obj`, Python itself adds the closest name.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    from onnxfn.specs.algebra.public_calls import public

    value = getattr(import_module(PLACES[name]), name)
    return public(value) if isinstance(value, FunctionType) else value


def __dir__() -> list[str]:
    """The public names, for completion: the folders and what this file imports are left out."""
    return sorted((*__all__, "__all__", "__doc__", "__version__"))
