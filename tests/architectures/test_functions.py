"""The short names of patches and wrappers: each one resolves, and no function of a folder is unused."""

import ast
from functools import partial
from pathlib import Path

import pytest
from declared_specs import specs_for_derivation, specs_of_rows
from refusals import refusal

from onnxfn import ARCHITECTURES, UnknownName, architectures, with_expanded_cache
from onnxfn.architectures.functions import function_named
from onnxfn.architectures.patch_table import PATCHES
from onnxfn.models.submodules import SUBMODULES

FOLDER = Path(architectures.__file__).parent
SPECS = (*specs_of_rows(), *specs_for_derivation(), with_expanded_cache(ARCHITECTURES["deepseek_v3"]))


def patches():
    return {by for by, _ in PATCHES.values()} | {patch.by for spec in SPECS for patch in spec.call.patches}


def submodules():
    names = {spec.call.submodule for spec in SPECS} - {None, *SUBMODULES}
    return {name for name in names if not name.startswith("self.")}


@pytest.mark.parametrize(("folder", "names"), [("patches", patches()), ("wrappers", submodules())])
def test_each_short_name_resolves_to_a_function_of_its_file(folder, names):
    assert len(names) > 20
    for name in sorted(names):
        file, _, function = name.partition(".")
        resolved = function_named(name, folder, kind="function")
        if not isinstance(resolved, property):  # a patch of a property
            assert (resolved.__module__, resolved.__name__) == (f"onnxfn.architectures.{folder}.{file}", function)


@pytest.mark.parametrize(
    "name", ["attention", "attention.", ".padding_mask", "attention.padding_mask.", "attentio.padding_mask", "a/b.c"]
)
def test_a_short_name_of_no_function_is_unknown(name):
    assert refusal(UnknownName, partial(function_named, kind="patch"), name, "patches").startswith("no patch ")


PROTOCOL = {"feature_splits.py": "TypeError"}
"""A file whose functions are special methods of Python, and the error by which one says that it has no answer."""


def test_a_function_refuses_what_no_graph_computes_by_an_error_of_onnxfn():
    """Any other error would be one of the trace: a model that torch cannot trace, with the place in the patch."""
    files = [file for folder in ("patches", "wrappers") for file in (FOLDER / folder).glob("*.py")]
    raised = {(file.name, node.exc.func.id) for file in files for node in raises(file)}
    assert {name for file, name in raised if PROTOCOL.get(file) != name} == {"InvalidSpec"}


def raises(file):
    tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node for node in tree if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
