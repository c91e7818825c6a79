"""What tests/tools/next_release.py compares: facts of sources, differences of facts, and lines of pytest."""

import doctest
import importlib

import pytest
import release_facts
from release_differences import ADDED, GONE, RENAMED, difference, table

BEFORE = {
    "`forward`": {"a.A": ["self", "x", "past"], "b.B": ["self", "past", "old"], "c.C": ["self"]},
    "functions": {"m.mask": ["config", "dtype"]},
}
AFTER = {
    "`forward`": {"a.A": ["self", "x", "cache"], "b.B": ["self", "cache"], "d.D": ["self", "y"]},
    "functions": {"m.causal_mask": ["config", "dtype"]},
}
CHANGES = {
    "`forward`": {
        (GONE, "name"): ["c.C"],
        (ADDED, "name"): ["d.D"],
        (RENAMED, "past -> cache"): ["a.A", "b.B"],
        (GONE, "old"): ["b.B"],
    },
    "functions": {(RENAMED, "name"): ["m.mask -> m.causal_mask"]},
}


def test_what_is_gone_renamed_and_new_is_counted():
    assert difference(BEFORE, AFTER) == CHANGES


def test_equal_versions_have_no_difference():
    assert difference(BEFORE, BEFORE) == {"`forward`": {}, "functions": {}}
    assert table(difference(BEFORE, BEFORE))[2:] == ["| `forward` | none | | 0 | |", "| functions | none | | 0 | |"]


def test_a_table_has_the_most_frequent_changes_and_says_how_many_others_there_are():
    assert table(CHANGES, longest=3, examples=1)[2:] == [
        "| `forward` | gone |  | 1 | `c.C` |",
        "| `forward` | new |  | 1 | `d.D` |",
        "| `forward` | renamed | `past -> cache` | 2 | `a.A`, ... |",
        "| `forward` | 1 others | | | |",
        "| functions | renamed |  | 1 | `m.mask -> m.causal_mask` |",
    ]


def test_a_name_is_found_where_it_is_defined(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("from p.a import f\nif True:\n    y = 1\n")
    (tmp_path / "p" / "a.py").write_text("def f(x, *args, k=1, **rest): ...\nclass C:\n    def m(self): self.v = 1\n")
    texts = release_facts.sources(tmp_path / "p")
    used = release_facts.names_in("import p\nfrom p.a import C as D\nD.m\np.f(p.y, D().v)\n", "p")
    assert used == {"p.f", "p.y", "p.a.C", "p.a.C.m"}
    found = release_facts.found_names({*used, "p.a", "p.a.C.v", "p.gone", "p.a.C.gone"}, texts)
    assert found["p.f"] == ["x", "*args", "k", "**rest"]
    assert found == {"p.f": found["p.f"], "p.y": [], "p.a": [], "p.a.C": [], "p.a.C.m": ["self"], "p.a.C.v": []}


@pytest.mark.parametrize("name", ["release_differences", "release_facts", "next_release"])
def test_the_examples_are_right(name, monkeypatch):
    folder = release_facts.ROOT / "tests" / "tools"
    monkeypatch.syspath_prepend(str(folder))
    assert doctest.testmod(importlib.import_module(name)).failed == 0
