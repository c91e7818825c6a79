"""The public names of a module: imports for type checkers say where each lies. Each is imported at its first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

PACKAGE = __name__.partition(".")[0]

MODULES = (
    *("batch", "edits", "errors", "facts", "families", "optimum", "programs", "quantization", "records", "results"),
    "sources",
)
"""The modules of public names. The names that most people need are in the package itself, too."""

RENAMED: Mapping[str, str] = MappingProxyType(
    {"ExportJob": "onnxfn.ExportRequest", "FixedAxis": "onnxfn.records.AxisFacts"}
)
"""A name that was public -> the one in its place."""

Names = tuple[tuple[str, ...], Callable[[str], Any], Callable[[], list[str]]]
"""`__all__`, `__getattr__` and `__dir__` of a module."""


def public_names(module: str) -> Names:
    """`__all__`, `__getattr__` and `__dir__` of a module.

    A function has the errors of public calls. In the package itself, a name of another public module works, too.

    >>> names, value_of, _ = public_names("onnxfn.sources")
    >>> names
    ('constant', 'either', 'from_config', 'quotient')
    >>> value_of("constant")(3)
    Getter(function='constant', arguments=(3,))
    """
    places = _places(module)

    @cache
    def value_of(name: str) -> Any:
        if module == PACKAGE and name in MODULES:
            return import_module(f"{PACKAGE}.{name}")
        if name not in places:
            return _value_elsewhere(module, name)
        value = getattr(import_module(places[name]), name)
        if not isinstance(value, FunctionType) or places[name] == PACKAGE:
            return value
        from onnxfn.specs.algebra.public_calls import public  # imports what a function needs; no import of names does

        return public(value, module)

    names = tuple(name for name in places if name not in MODULES)
    return names, value_of, lambda: sorted((*places, "__all__", "__doc__"))


def _value_elsewhere(module: str, name: str) -> Any:
    """The value of a name of another public module; AttributeError if none has it, or outside of the package."""
    owner = next((each for each in MODULES if name in _places(f"{PACKAGE}.{each}")), None)
    if module != PACKAGE or owner is None:
        advice = f"; it is in {PACKAGE}.{owner}" if owner else f"; it is {RENAMED[name]} now" if name in RENAMED else ""
        text = f"module {module!r} has no attribute {name!r}{advice}"
        raise AttributeError(text, name=name, obj=sys.modules[module])  # by these, Python adds the closest name
    return getattr(import_module(f"{PACKAGE}.{owner}"), name)


@cache
def _places(module: str) -> Mapping[str, str]:
    """From each name of a module to where it lies, by the imports for type checkers; the package has them in a stub."""
    file = "__init__.pyi" if module == PACKAGE else f"{module.rpartition('.')[2]}.py"
    nodes = ast.walk(ast.parse((Path(__file__).parents[2] / file).read_text()))
    others = {f"{PACKAGE}.{each}" for each in MODULES}  # the stub has their names for type checkers alone
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module not in others]
    return MappingProxyType(
        {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name}
    )
