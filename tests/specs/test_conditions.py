"""Conditions on sizes: what they compute, how files state them, and the sizes that are chosen to try them."""

from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onnxfn.specs import conditions as its
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.size_cases import FAR_GROWTH, FEW_ELEMENTS, MOST_GROWTH, harmful, nearest, other_sides, within

NAMES = ("n", "m")
size = st.integers(1, 300)
sizes = st.fixed_dictionaries(dict.fromkeys(NAMES, size))
formula = st.recursive(
    st.sampled_from(NAMES) | st.integers(1, 40).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
        )
    ),
    max_leaves=5,
)
condition = st.tuples(formula, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), formula).map(" ".join)
conditions = st.lists(st.builds(its.Condition, condition, st.sampled_from(["", "model.py:7"])), max_size=3, unique=True)


@given(condition, sizes)
def test_a_condition_is_what_python_computes(text, known):
    try:
        expected = bool(eval(text, {"max": max, "min": min}, dict(known)))
    except ZeroDivisionError:
        expected = False
    assert its.is_condition(text)
    assert its.is_true(text, known) == expected
    assert {*its.symbols_of(text)} <= {*NAMES}


@given(conditions)
def test_a_file_states_conditions_as_they_are_read(every):
    assert [*map(str, its.read_conditions(its.stated(every)))] == [*map(str, every)]


@pytest.mark.parametrize(
    "text",
    [
        *("import os", "__import__('os') == 1", "n.real == 1", "n == 'a'", "max(n, key=m) > 2", "n[0] == 1"),
        *("n + 1", "9**9**9 > 1", "(n**8)**8 > 1", "n**999 > 1", "(lambda: 1)() == 1", "[n] == [1]", "n == True", ""),
        "n > 1" + " + 1" * 9999,
        "(" * 400 + "n" + ")" * 400 + " == 1",
    ],
)
def test_what_is_no_condition_is_not_computed(text):
    assert not its.is_condition(text)
    assert its.read_conditions(text) == ()


def test_a_condition_on_a_size_that_is_not_known_is_refused():
    with pytest.raises(InvalidSpec, match="no size for m; known: n"):
        its.is_true("n == m", {"n": 1})


@given(st.integers(2, 99) | st.none(), st.integers(2, 99) | st.none())
def test_the_range_of_an_axis_is_that_of_its_conditions(low, high):
    found = its.range_of((*its.range_conditions("n", low, high), *its.range_conditions("m", 1, 2)), "n")
    assert found == ((0, None) if low == high is None else (low or 0, high))


@given(condition, sizes)
def test_a_condition_as_ranges_is_true_of_the_same_sizes(text, known):
    ranges = its.as_ranges(its.Condition(text, "a.py:1"))
    assert its.is_true(text, known) == all(its.is_true(each.text, known) for each in ranges)
    assert all(each.line == "a.py:1" for each in ranges)


@given(condition, sizes)
def test_a_condition_with_other_names_is_the_same_of_their_sizes(text, known):
    renamed = its.with_names(its.Condition(text), {"n": "batch", "m": "2*length"})
    if known["m"] % 2 == 0:
        assert its.is_true(renamed.text, {"batch": known["n"], "length": known["m"] // 2}) == its.is_true(text, known)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, st.sampled_from([0, 1, 5, 64]))), conditions)
@example({"n": 0, "m": 0}, [its.Condition("1 != (n // (n - 9))")])
def test_the_sizes_on_the_other_side_are_there_and_the_border_is_not(base, every):
    true = [each for each in every if its.is_true(each.text, base)]
    allowed = lambda tried: tried["n"] < 200 and (tried["n"] - base["n"]) % 2 == 0  # noqa: E731
    for case in other_sides(base, true, allowed):
        assert allowed(case.sizes)
        if case.reason.startswith(("other side", "far")):
            assert any(not its.is_true(each.text, case.sizes) for each in true)
            elements, of_base = (prod(max(1, size) for size in each.values()) for each in (case.sizes, base))
            growth = FAR_GROWTH if case.reason.startswith("far") else MOST_GROWTH
            assert elements <= max(FEW_ELEMENTS, growth * of_base)


@given(sizes, st.integers(1, 64))
def test_the_nearest_multiples_are_found_on_both_sides(base, step):
    found = {each["n"] for each in nearest(base, "n", lambda tried: tried["n"] % step == 0)}
    assert found == {base["n"] // step * step + step, (base["n"] - 1) // step * step} - {0}


@given(sizes, st.integers(1, 64), st.integers(1, 64))
def test_sizes_are_moved_into_limits(base, step, other):
    limits = [its.Condition(f"n % {step} == 0"), its.Condition(f"m >= {other}"), its.Condition("n != 7")]
    moved = within(base, limits)
    assert step == 7 or all(its.is_true(each.text, moved) for each in limits)
    assert all(moved[name] == base[name] for name in NAMES if all(its.is_true(each.text, base) for each in limits))


@given(st.lists(sizes, max_size=4), st.lists(sizes, min_size=1, max_size=4), conditions)
def test_limits_leave_out_all_that_failed_or_there_are_none(failed, passed, every):
    limits = harmful(every, failed, passed)
    assert not limits or all(not all(its.is_true(each.text, sizes) for each in limits) for sizes in failed)


def test_the_end_of_an_axis_is_that_of_the_failures_that_no_condition_explains():
    failed, passed = [{"b": 1, "n": 4}, {"b": 14, "n": 3}], [{"b": 2, "n": 4}, {"b": 15, "n": 5}]
    limits = harmful([its.Condition("n % 7 != 3")], failed, passed)
    assert limits == (its.Condition("b >= 2"), its.Condition("n % 7 != 3"))
