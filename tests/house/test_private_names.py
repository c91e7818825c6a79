"""Private names of torch, onnxscript, onnx_ir and transformers are written in `architectures/private` alone."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from onnxfn.architectures.private import torch_names, transformers_names

PACKAGE = Path(__file__).resolve().parents[2] / "onnxfn"
FOLDER = "architectures/private"
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text()
    for path in sorted(PACKAGE.rglob("*.py"))
    if FOLDER not in path.as_posix()
}

TABLES = {"torch_name": torch_names, "transformers_name": transformers_names}
ATTRIBUTES = frozenset(chain.from_iterable(module.ATTRIBUTES for module in TABLES.values()))
OTHER_ATTRIBUTES = {
    "_exit": "Python",
    "_fields": "Python",
    "_loaded": "onnxfn",
    "_repr_html_": "onnxfn",
    "_hf_hook": "accelerate",
}
"""Attributes with an underscore that are of no such package, and whose they are."""

PACKAGES = ("torch", "onnxscript", "onnx_ir", "transformers")
PRIVATE = re.compile(r"(torch|onnxscript|onnx_ir|transformers)(\.fx\.experimental|(\.\w+)*\._[a-z])[\w.:]*")
OPERATORS = "torch.ops."
"""Operators of a graph have names with underscores, which are their public names."""

NOT_IMPORTED = {"torch.distributed._composable"}
"""Where a class may be defined that a caller passes."""


def is_private(path):
    return PRIVATE.fullmatch(path) is not None and not path.startswith(OPERATORS) and path not in NOT_IMPORTED


def paths(node):
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names):
            return [f"{module}.{alias.name}" for alias in names]
        case ast.Attribute():
            return [ast.unparse(node)]
        case ast.Constant(value=str(text)):
            return [text]
    return []


def attributes(node):
    """The private attributes that a node reads from an object, also by `getattr`."""
    match node:
        case ast.Attribute(attr=name) if not ast.unparse(node).startswith((OPERATORS, "aten.")):
            names = [name]
        case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            names = [name]
        case _:
            names = []
    return [name for name in names if re.match("_[a-z]", name)]


def private_names(source):
    for node in ast.walk(ast.parse(source)):
        yield from filter(is_private, paths(node))
        yield from (name for name in attributes(node) if name not in ATTRIBUTES | OTHER_ATTRIBUTES.keys())


def test_no_other_file_writes_a_private_name():
    found = {name: sorted(set(private_names(source))) for name, source in SOURCES.items()}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch._dynamo.config", "torch._dynamo.config"),
        ("from torch._guards import detect_fake_mode", "torch._guards.detect_fake_mode"),
        ("from torch.fx.experimental import proxy_tensor", "torch.fx.experimental.proxy_tensor"),
        ("from transformers.utils import _is_there", "transformers.utils._is_there"),
        ("torch._check(a)", "torch._check"),
        ("a = 'onnxscript.optimizer._folding:fold'", "onnxscript.optimizer._folding:fold"),
        ("graph._nodes", "_nodes"),
        ("getattr(graph, '_nodes', None)", "_nodes"),
    ],
)
def test_a_private_name_is_seen(source, name):
    assert name in private_names(source)


@pytest.mark.parametrize("function", TABLES)
def test_every_name_of_a_table_is_used(function):
    used = chain.from_iterable(
        re.findall(rf'{function}\("(\w+)"\)|NAMES\["(\w+)"\]', each) for each in SOURCES.values()
    )
    assert set(filter(None, chain.from_iterable(used))) >= set(TABLES[function].NAMES)


@pytest.mark.parametrize("function", TABLES)
def test_every_attribute_of_a_table_is_used(function):
    text = "\n".join(SOURCES.values())
    assert [name for name in TABLES[function].ATTRIBUTES if not re.search(rf"\b{name}\b", text)] == []
