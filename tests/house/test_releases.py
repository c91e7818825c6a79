"""The examples of tests/tools/next_release.py: facts of sources, differences of facts, and lines of pytest."""

import doctest
import importlib

import pytest
import release_facts


@pytest.mark.parametrize("name", ["release_differences", "release_facts", "next_release"])
def test_the_examples_are_right(name, monkeypatch):
    folder = release_facts.ROOT / "tests" / "tools"
    monkeypatch.syspath_prepend(str(folder))
    assert doctest.testmod(importlib.import_module(name)).failed == 0
