"""The benchmarks' own arithmetic, and that README shows their last figures."""

from __future__ import annotations

import doctest
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _beside(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("module", ["figures", "models", "answers"])
def test_the_examples_say_what_happens(module):
    tried = doctest.testmod(import_module(module))
    assert tried.attempted
    assert not tried.failed


def test_a_requirement_holds_up_to_its_limit_and_not_beyond_it():
    required = import_module("figures").Required
    verdicts = [required("ratio", found, 1.0).verdict for found in (None, 1.0, 1.01)]
    assert verdicts == ["not measured", "holds", "does not hold"]


def test_a_ratio_is_that_of_pairs():
    """A slow round is slow for both: the ratio of the medians would say 0.1."""
    assert import_module("figures").ratio([1.0, 1.0, 50.0], [2.0, 10.0, 100.0]) == 0.5


def test_a_process_is_measured_with_its_children():
    child = "import time; held = b'x' * 60_000_000; time.sleep(0.2); print(len(held))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = import_module("processes").ran([sys.executable, "-c", parent])
    assert (done.code, done.said.strip()) == (0, "60000000")
    assert done.anonymous > 60_000_000
    assert done.resident >= done.anonymous


def test_readme_shows_the_last_figures():
    assert import_module("readme").text() in (ROOT / "README.md").read_text()
