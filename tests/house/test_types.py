"""What type checkers see of onnxfn: a typed program passes, wrong calls do not, and no public value is untyped."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest
from pages import BLOCK
from public_names import VALUES

import onnxfn

ROOT = Path(__file__).resolve().parents[2]
DOWNSTREAM = Path(__file__).with_name("downstream.py")
FUNCTIONS = [name for name, value in VALUES.items() if hasattr(value, "__wrapped__")]

WRONG = """
import onnxfn
onnxfn.BuildOptions(find_repeats="nonsense")
onnxfn.WriteOptions(layout="nonsense")
onnxfn.WriteOptions(weight_storage="nonsense")
onnxfn.with_dtypes(onnxfn.text_encoder, int="nonsense")
onnxfn.plan(onnxfn.text_encoder, {}, decoders="nonsense")
onnxfn.dummy_inputs(onnxfn.text_encoder, {}, "nonsense")
onnxfn.facts.padded("nonsense")
onnxfn.from_json("{}").passed
onnxfn.compose([onnxfn.text_encoder])
onnxfn.generate("folder", 3)
"""


def output_of_mypy(tmp_path_factory, *arguments):
    cache = tmp_path_factory.getbasetemp() / "mypy"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={cache}", *arguments]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert process.stderr == ""
    return process.stdout


def complaints(path, tmp_path_factory):
    lines = [line.split(":") for line in output_of_mypy(tmp_path_factory, path).splitlines() if ": error: " in line]
    return [int(number) for file, number, *_ in lines if Path(file).name == path.name]


def test_a_typed_program_passes(tmp_path_factory):
    assert complaints(DOWNSTREAM, tmp_path_factory) == []


def test_the_code_of_readme_and_of_each_page_has_right_types(tmp_path, tmp_path_factory):
    pages = [ROOT / "README.md", *(ROOT / "onnxfn" / "guide").glob("*.md")]
    for page in pages:
        code = [code for kind, code in BLOCK.findall(page.read_text()) if kind == "python"]
        (tmp_path / f"of_{page.stem.replace('-', '_')}.py").write_text("\n".join(code))
    # torch's own types are not read, which takes a minute, so the class of a module is not known.
    unread = "--allow-subclassing-any", "--disable-error-code=import-not-found"
    assert output_of_mypy(tmp_path_factory, *unread, *sorted(tmp_path.glob("of_*.py"))) == ""


def test_each_wrong_call_is_a_complaint(tmp_path, tmp_path_factory):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    calls = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.startswith("onnxfn.")]
    assert complaints(wrong, tmp_path_factory) == calls


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright fetches a Node.js program, so it is no dependency")
@pytest.mark.parametrize("arguments", [[str(DOWNSTREAM)], ["--verifytypes", "onnxfn", "--ignoreexternal"]])
def test_pyright_knows_the_types(arguments):
    """At least 97 % of the public symbols have a type that pyright need not infer."""
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    result = json.loads(process.stdout)
    if "typeCompleteness" in result:
        assert result["typeCompleteness"]["completenessScore"] >= 0.97
    else:
        errors = [found["message"] for found in result["generalDiagnostics"] if found["severity"] == "error"]
        assert [error for error in errors if "could not be resolved" not in error] == []  # pyright may not find torch


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_types_of_a_public_function_are_known_when_it_runs(name):
    """Its arguments are compared with them."""
    assert "return" in get_type_hints(getattr(onnxfn, name))


def untyped_values(path):
    """The values of a module that are the result of a call and have no annotation; constants may have none."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name.islower() and not name.startswith("_"))


def test_no_public_value_is_without_a_type():
    """A type checker would infer it, and others infer something else (pyright --verifytypes)."""
    package = Path(onnxfn.__file__).parent
    untyped = [(path.name, name) for path in sorted(package.rglob("*.py")) for name in untyped_values(path)]
    assert untyped == []
