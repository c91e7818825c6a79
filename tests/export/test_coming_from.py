"""What to write instead of each name of Optimum and transformers.onnx exists in onnxfn."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import onnxfn

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"\| `(?P<name>[^`]+)` \| (?P<instead>.+) \|")


def rows(table):
    """The rows of a table in Markdown: a name, and what to write instead; its head too, if it is a name."""
    matches = filter(None, map(ROW.fullmatch, table.splitlines()))
    return {match["name"]: match["instead"].replace("\\|", "|") for match in matches}


TABLES = (ROOT / "tests" / "contract" / "README.md").read_text().partition("## Every name")[2].split("\n\n")
INSTEAD = {next(iter(table)): dict([*table.items()][1:]) for table in map(rows, TABLES) if table}
"""{module or class: {its public name: what to write instead}}; a table has the module or class in its head."""

NAMES = [(title, name) for title, names in INSTEAD.items() for name in names]
NO_CODE = ("threshold", "path", "pt", "-with-past")
"""Words between backquotes that are values or parameters."""


def codes(text):
    words = (word for word in re.findall(r"`([^`]+)`", text) if word not in NO_CODE)
    return [word for word in words if not word.startswith(("onnxfn export", "transformers."))]


def calls(code):
    tree = ast.parse(code.replace("...", "0"), mode="eval")
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [(node.func.id, [keyword.arg for keyword in node.keywords]) for node in nodes]


def takes(function, keyword):
    parameters = inspect.signature(function).parameters
    return keyword in parameters or any(known.kind is known.VAR_KEYWORD for known in parameters.values())


@pytest.mark.parametrize(("title", "name"), NAMES)
def test_what_to_write_instead_is_public_and_takes_these_keywords(title, name):
    text = INSTEAD[title][name]
    assert "`" in text or text.startswith(("nothing", "the functions"))
    for code in codes(text):
        if code.isidentifier():
            assert hasattr(onnxfn, code), code
        for function, keywords in calls(code):
            if function != "tuple":
                assert all(takes(getattr(onnxfn, function), keyword) for keyword in keywords), code


def test_the_names_that_are_used_most_have_the_same_row():
    page = ROOT / "onnxfn" / "guide" / "from-optimum.md"
    used = rows(page.read_text().partition("| name | instead |")[2].partition("\n\n")[0])
    assert used
    assert used == {name: INSTEAD[name.rpartition(".")[0]][name.rpartition(".")[2]] for name in used}
