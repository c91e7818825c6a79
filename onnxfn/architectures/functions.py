"""The short names of patches and wrappers in specs: `file.function` of `patches/file.py` or `wrappers/file.py`."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnxfn.specs.converters import resolve
from onnxfn.specs.errors import UnknownName, unknown


def is_short(name: str) -> bool:
    """Whether a name of a function is short; a long one is `package.module:function`."""
    return ":" not in name


def function_named(name: str, folder: str, *, kind: str, known: tuple[str, ...] = ()) -> Any:
    """The function that a spec names, by a short name in `folder` or `package.module:function`; else UnknownName."""
    if not is_short(name):
        return resolve(name, {}, kind=kind)
    file, _, function = name.partition(".")
    module = f"{__package__}.{folder}.{file}"
    if not (function and file.isidentifier() and find_spec(module)):
        text = unknown(kind, name, (*known, *short_names(folder)))
        raise UnknownName(f"{text}; any other function is written 'package.module:function'")
    return resolve(f"{module}:{function}", {}, kind=kind)


def short_names(folder: str) -> tuple[str, ...]:
    """The short names of the functions in a folder."""
    return tuple(
        f"{path.stem}.{node.name}"
        for path in sorted((Path(__file__).parent / folder).glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )
