"""README's code runs, and prints what README says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import swept

import onnxfn
from onnxfn.export import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
PACKAGE = ROOT / "onnxfn"


def test_readme_code_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    said = 0
    for (kind, code), following in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):
            exec(compile(code, "README.md", "exec"), names)
        if following[0] == "text":
            assert heard.getvalue() == following[1]
            said += 1
    assert said >= 5


def test_the_table_of_what_is_covered_is_that_of_the_last_sweeps():
    assert swept.coverage() in README


def test_every_folder_is_named():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in folders if f"`onnxfn/{name}`" not in README} == set()


def test_every_edit_in_the_table_is_public():
    table = README.partition("| edit |")[2].partition("\n\n")[0]
    for name in re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:])):
        assert callable(getattr(onnxfn, name))


@pytest.mark.parametrize("command", [command.callback.__name__ for command in cli.app.registered_commands])
def test_every_command_is_named(command):
    assert f"onnxfn {command}" in README
