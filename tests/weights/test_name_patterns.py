"""Patterns of layers, as PEFT's regular expressions fit them; those that Python's `re` cannot end are quick."""

import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.adapters import LONGEST, is_match

atoms = st.sampled_from(["a", "b", ".", r"\.", r"\d", "[ab]", "1", "_"])
groups = st.lists(st.lists(atoms, max_size=2).map("".join), min_size=1, max_size=3).map(
    lambda forms: f"({'|'.join(forms)})"
)
units = st.tuples(atoms | groups, st.sampled_from(["", "", "*", "+", "?"])).map("".join)
patterns = st.builds("{}{}{}".format, st.sampled_from(["", "^"]), st.lists(units, max_size=4).map("".join), st.just(""))
names = st.text("ab1._", max_size=8)


@given(patterns, names)
def test_a_pattern_fits_the_names_that_peft_fits(pattern, name):
    by_peft = re.match(rf"(.*\.)?({pattern})$", name) is not None
    assert is_match(pattern, name) == (by_peft or name == pattern or name.endswith(f".{pattern}"))


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("q_proj", True),
        ("proj", False),
        ("self_attn.q_proj", True),
        (r"^model\.layers\.\d+\.self_attn\.q_proj$", True),
        ("^layers.10.self_attn.q_proj", False),
        (".*(q|k)_proj", True),
        ("k_proj|q_proj", True),
        ("k_proj|v_proj", False),
    ],
)
def test_what_people_write_fits(pattern, fits):
    assert is_match(pattern, "model.layers.10.self_attn.q_proj") is fits


@pytest.mark.parametrize(
    ("pattern", "name"), [("(a|a)*b", "a" * 2000), ("(a|aa)+c", "a" * 2000), ("a*" * 400, "a" * 500)]
)
def test_a_pattern_that_backtracks_for_hours_is_quick(pattern, name):
    start = perf_counter()
    is_match(pattern, f"{name}!")
    assert perf_counter() - start < 5


@pytest.mark.parametrize("pattern", ["[", "a{3}", "(a*)*", r"(?=a)", "a**", "a" * (LONGEST + 1)])
def test_a_pattern_of_another_kind_is_refused(pattern):
    assert "the pattern " in refusal(InvalidSpec, is_match, pattern, "layers.0.q_proj")
