"""Notebooks without a kernel: their cells run one after the other in one namespace."""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def shown_by_cells(path: Path) -> Iterator[tuple[Any, str]]:
    """For each code cell, the value of its last expression (None without one), and what it prints."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                value = last_value(ast.parse("".join(cell["source"]), path.name), namespace)
            yield value, printed.getvalue()


def last_value(tree: ast.Module, namespace: dict[str, Any]) -> Any:
    """Runs the statements of a cell; the value of the last one if it is an expression."""
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
