"""Every option of every command is in the arguments of a test that runs the command line."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
import typer

from onnxfn.export.cli import app

TESTS = Path(__file__).parents[1]
RUNNER = "onnxfn.export.cli"
OWN = ("--help", "-h", "--install-completion", "--show-completion")
"""Options of typer."""


def options():
    """The command, in words, and the words of each option, `--no-check` too."""
    group = typer.main.get_command(app)
    commands = {(): group, **{(name,): command for name, command in group.commands.items()}}
    for words, command in commands.items():
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                if parameter.param_type_name == "option" and option not in OWN:
                    yield (*words, option)


def argument_words(source):
    """The texts that are arguments of calls, or elements of lists and tuples: no docstring, no comment, no comparison.

    A text `--size=3` counts as `--size`, and `f"--atol={value}"` as `--atol`.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(args=items) | ast.List(elts=items) | ast.Tuple(elts=items):
                yield from filter(None, map(word, items))


def word(node):
    match node:
        case ast.Constant(value=str(text)):
            return text.partition("=")[0] if text.startswith("--") else text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text.partition("=")[0]
    return None


@cache
def words_of_files():
    """The words of each test file that imports the command line."""
    sources = {path: path.read_text() for path in sorted(TESTS.rglob("test_*.py")) if path != Path(__file__)}
    return {path: {*argument_words(source)} for path, source in sources.items() if RUNNER in source}


@pytest.mark.parametrize("words", options(), ids=" ".join)
def test_an_option_is_in_the_arguments_of_a_test_of_its_command(words):
    assert [path.name for path, known in words_of_files().items() if known >= {*words}] != []


def test_options_are_found_in_arguments_alone():
    source = '''
def test_it(run):
    """Runs with --first."""
    flags = ("--second", "2")
    assert run("export", *flags, f"--third={2}", ["--fourth=1"]).output == "--fifth"  # --sixth
'''
    assert {*argument_words(source)} == {"export", "--second", "2", "--third", "--fourth"}


def test_every_command_has_options():
    assert {words[0] for words in options()} >= {"export", "inspect", "push", "verify", "cache", "--version"}
