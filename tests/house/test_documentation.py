"""Every public name is documented: parameters, errors, fields, and an example that runs."""

import ast
import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
from attrs import fields, has
from public_names import MODULES, VALUES

import onnxfn

FUNCTIONS = [name for name, value in VALUES.items() if inspect.isfunction(value)]
RECORDS = [name for name, value in VALUES.items() if inspect.isclass(value) and has(value)]
ERRORS = [
    name for name in VALUES if inspect.isclass(getattr(onnxfn, name)) and issubclass(getattr(onnxfn, name), Exception)
]
OTHERS = sorted({*VALUES} - {*FUNCTIONS, *RECORDS, *ERRORS})


def section(text, title):
    """The lines of a section of a docstring, such as `Args:`, without its title."""
    lines = inspect.cleandoc(text or "").splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith(title)]
    if not starts:
        return ""
    inner = [lines[starts[0]].removeprefix(title).strip()]
    for line in lines[starts[0] + 1 :]:
        if line and not line.startswith(" "):
            break
        inner.append(line)
    return "\n".join(inner).strip()


def raised_in_body(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raises = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    names = {ast.unparse(getattr(error, "func", error)) for error in raises}
    errors = {name for name in names if name[0].isupper() or name == "unknown"}
    return {"UnknownName" if name.split(".")[-1] == "unknown" else name for name in errors}


def docstrings_of_value(name):
    """The docstrings below the definitions of a module-level value of this name, None where there is none."""
    for path in sorted(Path(onnxfn.__file__).parent.rglob("*.py")):
        body = ast.parse(path.read_text()).body
        for statement, following in zip(body, [*body[1:], None], strict=True):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                text = getattr(getattr(following, "value", None), "value", None)
                yield text if isinstance(text, str) else None


def test_all_names_are_there_once():
    """The package has the names that most people need; each of its other names goes on working there."""
    assert len(onnxfn.__all__) <= 65
    assert {*onnxfn.__all__, *MODULES} == {*dir(onnxfn)} - {"__all__", "__doc__"}
    stub = Path(onnxfn.__file__).with_name("__init__.pyi").read_text()  # type checkers know all of them there
    assert [name for name in VALUES if f" import {name} as {name}\n" not in stub] == []
    for module in MODULES:
        names = import_module(f"onnxfn.{module}").__all__
        assert len({*names}) == len(names)
        assert [name for name in names if getattr(onnxfn, name) is not VALUES[name]] == []


@pytest.mark.parametrize("module", ["onnxfn", *(f"onnxfn.{name}" for name in MODULES)])
def test_the_index_has_the_names_of_a_module(module):
    index = (Path(onnxfn.__file__).parent / "README.md").read_text()
    (row,) = (line for line in index.splitlines() if line.startswith(f"| `{module}` |"))
    assert {*re.findall(r"`(\w+)`", row.split("|")[3])} == {*import_module(module).__all__}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_documents_its_parameters(name):
    function = getattr(onnxfn, name)
    documented = section(function.__doc__, "Args")
    parameters = inspect.signature(function).parameters
    assert [parameter for parameter in parameters if f"{parameter}:" not in documented] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_documents_the_errors_that_it_raises(name):
    function = getattr(onnxfn, name)
    documented = section(function.__doc__, "Raises")
    assert [error for error in raised_in_body(function) if error not in documented] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_an_example(name):
    assert ">>> " in getattr(onnxfn, name).__doc__


@pytest.mark.parametrize("name", RECORDS)
def test_a_public_record_documents_its_fields(name):
    record = getattr(onnxfn, name)
    documented = section(record.__doc__, "Attributes")
    assert [field.name for field in fields(record) if f"{field.name}:" not in documented] == []


@pytest.mark.parametrize("name", ERRORS)
def test_a_public_error_says_when_it_is_raised(name):
    assert len(inspect.cleandoc(getattr(onnxfn, name).__doc__)) > 20


@pytest.mark.parametrize("name", OTHERS)
def test_a_public_value_is_documented(name):
    assert any(docstrings_of_value(name)), f"{name} has no docstring below its definition"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_signature_of_a_function_is_short_and_has_no_address(name):
    text = str(inspect.signature(getattr(onnxfn, name)))
    assert len(text) < 700
    assert " at 0x" not in text.replace("<function ignore at 0x", "")
