"""Every patch of the package with the function that it replaces: see tests/architectures/test_patch_signatures.py."""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from onnxfn.architectures.patch_table import PATCHES

MODELS = Path(find_spec("transformers").origin).parent / "models"
"""The folder of transformers' models."""


def modules_with_patched_functions() -> Iterator[ModuleType]:
    """The modules of transformers' models whose text has the name of a function or class of the table of patches."""
    owners = {name.rpartition(":")[2].partition(".")[0] for name in PATCHES} - {*dir(builtins)}
    folders = {name.partition(":")[0] for name in PATCHES}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(owners)))})\b")
    for path in sorted(MODELS.glob("*/modeling_*.py")):
        if path.parent.name in folders or pattern.search(path.read_text(encoding="utf-8")):
            yield import_module(f"transformers.models.{path.parent.name}.{path.stem}")


def body(function: Callable[..., Any]) -> str:
    """The code of a function without its docstring, decorators and annotations."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(tree, ast.FunctionDef)
    has_text = isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant)
    arguments = [argument for argument in ast.walk(tree.args) if isinstance(argument, ast.arg)]
    for argument in arguments:
        argument.annotation = None
    return ast.unparse([tree.args, *tree.body[has_text:]])  # type: ignore[list-item]
