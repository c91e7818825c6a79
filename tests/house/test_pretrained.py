"""Code of a checkpoint runs only if the caller says so, at each call that can run it."""

import ast
from pathlib import Path

import pytest

import onnxfn

PACKAGE = Path(onnxfn.__file__).parent


def loading_calls(source):
    tree = ast.parse(source)
    right = {
        call.args[0]
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "pretrained" and call.args
        if "trust_remote_code" in {keyword.arg for keyword in call.keywords}
    }
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    named = {node.value: node for node in assigned if isinstance(node.value, ast.Attribute)}
    by_name = {argument.id for argument in right if isinstance(argument, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("from_pretrained", "from_config") and node not in right:
            assigned = named.get(node)
            if assigned is None or {ast.unparse(target) for target in assigned.targets} - by_name:
                yield ast.unparse(node)


def test_no_call_loads_from_a_checkpoint_without_the_flag():
    calls = {
        path.relative_to(PACKAGE).as_posix(): uses
        for path in sorted(PACKAGE.rglob("*.py"))
        if (uses := list(loading_calls(path.read_text())))
    }
    assert calls == {}


def test_the_calls_of_pretrained_are_found():
    users = [path.name for path in PACKAGE.rglob("*.py") if "pretrained(" in path.read_text()]
    assert {"loading.py", "quantized.py", "prompts.py", "text_references.py", "auto_tables.py", "demo.py"} <= {*users}


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("AutoTokenizer.from_pretrained(folder)", ["AutoTokenizer.from_pretrained"]),
        ("AutoTokenizer.from_pretrained(folder, trust_remote_code=False)", ["AutoTokenizer.from_pretrained"]),
        ("pretrained(AutoTokenizer.from_pretrained, folder)", ["AutoTokenizer.from_pretrained"]),
        ("pretrained(A.from_config, config, trust_remote_code=False)", []),
        ("load = A.from_pretrained\npretrained(load, x, trust_remote_code=False)", []),
        ("load = A.from_pretrained\nload(x)", ["A.from_pretrained"]),
    ],
)
def test_a_call_without_the_flag_is_found(source, uses):
    assert list(loading_calls(source)) == uses
