"""The notebooks run from top to bottom, and what they show is small tables."""

import ast
import contextlib
import io
import json
from pathlib import Path

import pytest

from onnxfn import Exported, ExportSpec, Plan

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.ipynb"))
ROWS = 40
"""Rows of tables that a cell may show: one screen."""


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def shown(request):
    """For each code cell, the value of its last expression (None without one), and what it prints."""
    namespace, shown = {"__name__": "__main__"}, []
    for cell in json.loads(request.param.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]), request.param.name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(tree, "cell", "exec"), namespace)
                value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
            shown.append((value, printed.getvalue()))
    return shown


def test_the_notebooks_are_those_of_the_readme():
    names = {path.stem for path in FILES}
    assert names == {"compose_bert", "own_architecture", "decoder_writes_text"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_a_notebook_shows_a_spec_and_a_result_that_passed(shown):
    values = [value for value, _ in shown]
    assert any(isinstance(value, ExportSpec | Plan) for value in values)
    (result,) = [value for value in values if isinstance(value, Exported)]
    assert result.report.passed
    assert False not in values


def test_what_a_cell_shows_fits_on_a_screen(shown):
    for value, printed in shown:
        page = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        assert len(page.splitlines()) <= ROWS
        assert len(repr(value)) <= 300
        assert len(printed.splitlines()) <= 1
