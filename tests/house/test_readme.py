"""The code of README.md runs and prints what it shows. It names folders and pages; pages name edits and commands."""

import inspect
import re
from pathlib import Path

import pytest
import transformers
from pages import run_page
from public_names import VALUES

import onnxfn
from onnxfn.export.cli import commands as cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PACKAGE = ROOT / "onnxfn"


def test_the_code_of_readme_runs_and_prints_the_text_that_follows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(README, "README.md", {}) >= 3


def test_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert next(index for index, line in enumerate(lines) if line.startswith("onnxfn export ")) < 40
    assert max(len(cell.strip()) for line in lines if line.startswith("|") for cell in line.split("|")) <= 100


def test_every_page_of_the_guide_is_named():
    pages = {path.name for path in (PACKAGE / "guide").glob("*.md")}
    assert {page for page in pages if f"(onnxfn/guide/{page})" not in README} == set()


@pytest.mark.skipif(transformers.__version__ not in README, reason="README.md names another version of transformers")
def test_the_number_of_model_types_is_that_of_the_table():
    [(every, number)] = re.findall(r"knows (\d+)\nmodel types, (\d+) of them of Hugging Face `transformers` 5", README)
    known = {*onnxfn.ARCHITECTURES}
    assert (int(every), int(number)) == (len(known), len(known & {*transformers.CONFIG_MAPPING}))


def test_every_folder_is_named():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in folders if f"`onnxfn/{name}`" not in README} == set()


def test_every_edit_is_in_the_table_of_the_page_on_specs():
    table = (PACKAGE / "guide" / "spec.md").read_text().partition("| edit |")[2].partition("\n\n")[0]
    cells = "".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert {*re.findall(r"`(\w+)`", cells)} == {*onnxfn.edits.__all__} - {"for_task"}


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
    assert f"onnxfn {command}`" in (PACKAGE / "guide" / "command-line.md").read_text()
