"""The code of README.md runs and prints what README.md shows; folders, edits and commands are named there."""

import contextlib
import inspect
import io
import re
from pathlib import Path

import pytest
import transformers
from public_names import VALUES

import onnxfn
from onnxfn.export.cli import commands as cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PACKAGE = ROOT / "onnxfn"


def test_the_code_of_readme_runs_and_prints_the_text_that_follows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    compared = 0
    for (kind, code), following in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        if following[0] == "text":
            assert printed.getvalue() == following[1]
            compared += 1
    assert compared >= 5


@pytest.mark.skipif(transformers.__version__ not in README, reason="README.md names another version of transformers")
def test_the_number_of_model_types_is_that_of_the_table():
    """Rows of other libraries, and of model types that only older versions of transformers have, do not count."""
    (number,) = re.findall(r"It knows (\d+) model types\nof Hugging Face `transformers` 5", README)
    assert int(number) == len({*onnxfn.ARCHITECTURES} & {*transformers.CONFIG_MAPPING})


def test_every_folder_is_named():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in folders if f"`onnxfn/{name}`" not in README} == set()


def test_every_edit_in_the_table_is_public():
    table = README.partition("| edit |")[2].partition("\n\n")[0]
    for name in re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:])):
        assert callable(getattr(onnxfn, name))


def codes(function):
    """The names of the code of a function, of the function that it wraps, and so on."""
    names = []
    while inspect.isfunction(function):
        names.append(function.__code__.co_qualname)
        function = getattr(function, "__wrapped__", None)
    return names


def test_the_edits_are_those_that_wait_for_a_spec():
    """An edit is called with a spec and without; what else returns a spec is for `compose`."""
    edits = {name for name, function in VALUES.items() if any("as_edit" in code for code in codes(function))}
    assert edits == {*onnxfn.edits.__all__}


@pytest.mark.parametrize(
    "command", [command.name or command.callback.__name__ for command in cli.app.registered_commands]
)
def test_every_command_is_named(command):
    assert f"onnxfn {command}" in README
