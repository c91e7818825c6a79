"""An error says that a package is newer than the newest that was tried; nothing else does."""

import re
import sys
from pathlib import Path

import pytest

from onnxfn.specs.algebra.public_calls import NEWEST_TRIED, newer_than_tried, public
from onnxfn.specs.errors import InvalidSpec

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture
def _newer_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", sys)
    monkeypatch.setattr(
        "importlib.metadata.version", lambda name: "6.1.0" if name == "transformers" else NEWEST_TRIED[name]
    )


def failing():
    raise InvalidSpec("no spec")


@pytest.mark.usefixtures("_newer_transformers")
def test_an_error_names_a_newer_package_once():
    with pytest.raises(InvalidSpec, match="no spec") as caught:
        public(public(failing))()
    (note,) = caught.value.__notes__
    assert note.startswith("transformers 6.1.0 is installed; the newest that onnxfn was tried with is 5.")


@pytest.mark.usefixtures("_newer_transformers")
def test_a_call_that_succeeds_says_nothing(capsys):
    assert public(lambda: 3)() == 3
    assert capsys.readouterr() == ("", "")


def test_what_was_tried_needs_no_note():
    assert newer_than_tried(NEWEST_TRIED) == ""
    assert newer_than_tried({"torch": "2.12.1", "transformers": "5.20.0"}) == ""


def test_two_newer_packages_are_both_named():
    note = newer_than_tried({"torch": "3.0", "transformers": "6.0.0"})
    assert note.startswith("torch 3.0 and transformers 6.0.0 are installed; the newest")


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_readme_says_the_newest_that_was_tried(package):
    tried_line = re.search(rf"{package} .*?to ([\d.]+) were tried", README, re.DOTALL)
    assert tried_line[1] == NEWEST_TRIED[package]
