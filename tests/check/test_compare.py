"""Laws of the comparison: rounding is never refused, and an error above the bound is found in every dtype."""

import re

import numpy as np
import pytest
import tiny
from hypothesis import assume, example, given
from hypothesis import strategies as st

import onnxfn
from onnxfn.check.verdict.compare import Exact, compare, valid_elements
from onnxfn.check.verdict.verdict import PRECISIONS, NoReference, Norms, allowed, always_allowed

NUMPY = {"float32": np.float32, "float16": np.float16}
dtypes = st.sampled_from(sorted(NUMPY))
seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 200)
scales = st.floats(1e-3, 1e3)


def spec(dtype, **check):
    return onnxfn.PlannedSpec(target=onnxfn.Target(float_dtype=dtype), check=onnxfn.Check(**check))


def normal(seed, length, scale):
    return np.random.default_rng(seed).standard_normal(length) * scale


def judged(dtype, actual, expected, exact):
    arrays = actual.astype(np.float32), expected.astype(np.float32)
    return compare(spec(dtype), "y", "case", *arrays, exact=Exact(lambda: ("float64", exact)))


def norms(error, expected):
    rms = np.sqrt(np.mean(expected**2))
    return Norms(np.sqrt(np.mean(error**2)) / rms, (np.abs(error) / np.maximum(np.abs(expected), rms)).max())


def own_error(dtype, exact, seed, growth):
    """An error of PyTorch: as large, beside the exact values, as rounding makes it."""
    precision = PRECISIONS[dtype]
    own = normal(seed, len(exact), np.sqrt(np.mean(exact**2))) * growth * precision.unit_roundoff
    assume(norms(own, exact + own).rms <= precision.factor * precision.by_scale * precision.unit_roundoff)
    return own


@given(dtypes, seeds, lengths, scales)
def test_a_number_rounded_to_the_dtype_always_agrees(dtype, seed, length, scale):
    exact = normal(seed, length, scale)
    rounded = exact.astype(NUMPY[dtype])
    assert judged(dtype, rounded, rounded, exact).passed


@given(dtypes, seeds, lengths, scales, st.floats(0, 10))
def test_an_error_as_large_as_that_of_pytorch_always_agrees(dtype, seed, length, scale, growth):
    exact = normal(seed, length, scale)
    own = own_error(dtype, exact, seed + 1, growth)
    expected, actual = (exact + own).astype(np.float32), (exact - own).astype(np.float32)
    result = judged(dtype, actual, expected, exact)
    assert result.passed
    assert result.own_error is None or result.own_error == pytest.approx(np.abs(expected - exact).max())


@given(dtypes, seeds, lengths, scales, st.floats(0, 10), st.floats(1, 1000))
@example("float16", 136, 1, 1.0, 3.0, 1.0)  # one element, much smaller than others of its distribution
def test_an_error_above_the_bound_is_found(dtype, seed, length, scale, growth, above):
    """The error exceeds the bound by what always agrees, in one of the two norms, whatever else the arrays are."""
    exact = normal(seed, length, scale)
    own = own_error(dtype, exact, seed + 1, growth)
    expected = exact + own
    bound, agreement = allowed(PRECISIONS[dtype], norms(own, expected)), always_allowed(PRECISIONS[dtype])
    direction = normal(seed + 2, length, scale)
    assume(np.abs(direction).max() > 0)
    size = norms(direction, expected)
    larger = max((bound.rms + agreement.rms) / size.rms, (bound.peak + agreement.peak) / size.peak)
    actual = exact + direction * larger * (1.001 * above)
    assume(np.isfinite(actual.astype(np.float32)).all())
    result = compare(spec(dtype), "y", "case", actual, expected, exact=Exact(lambda: ("float64", exact)))
    assert not result.passed
    assert result.reference == "PyTorch in float64"


@given(dtypes, seeds, lengths, scales, st.floats(0, 0.999))
def test_a_difference_of_rounding_agrees_without_float64(dtype, seed, length, scale, part):
    """If it is not above the floor, float64 would say the same, by the triangle inequality."""
    expected = normal(seed, length, scale)
    precision = PRECISIONS[dtype]
    bounds = always_allowed(precision)
    direction = normal(seed + 1, length, scale)
    size = norms(direction, expected)
    step = direction * part * min(bounds.rms / size.rms, bounds.peak / size.peak)
    actual = expected + step

    def never():
        raise AssertionError("float64 was not needed")

    assert compare(spec(dtype), "y", "case", actual, expected, exact=Exact(never)).passed
    exact = expected + normal(seed + 2, length, scale)
    bound = allowed(precision, norms(expected - exact, expected))
    error = norms(expected + step * precision.floor / precision.agreement - exact, expected)
    assert error.rms <= bound.rms
    assert error.peak <= bound.peak


@pytest.mark.parametrize("reason", ["float64 cannot run: no kernel", "float64 has infinities or NaN"])
def test_without_float64_the_tolerance_is_by_scale_and_the_report_says_why(reason):
    def missing():
        raise NoReference(reason)

    expected = np.linspace(-1, 1, 9)
    precision = PRECISIONS["float32"]
    near, far = (expected * (1 + step * precision.by_scale * precision.unit_roundoff) for step in (0.9, 1.9))
    results = [compare(spec("float32"), "y", "case", actual, expected, exact=Exact(missing)) for actual in (near, far)]
    assert [result.passed for result in results] == [True, False]
    assert results[0].reference == f"PyTorch in float32, by scale: {reason}"


@given(seeds, st.floats(1, 1000))
def test_a_model_that_computes_other_values_in_float64_is_compared_by_scale(seed, factor):
    expected = normal(seed, 50, 1.0)
    exact = expected * (1 + factor * PRECISIONS["float32"].by_scale * 2.0**-21)
    assert not judged("float32", exact, expected, exact).passed
    assert "more than by rounding" in judged("float32", exact, expected, exact).reference
    assert judged("float32", expected, expected, exact).passed


@given(seeds, st.floats(1.1, 100), st.floats(0, 3.9), st.booleans())
def test_a_difference_as_large_as_a_large_own_error_is_told_from_a_larger_one(seed, growth, part, is_larger):
    """The output does not agree, but it does not tell whether the graph is wrong."""
    precision, exact = PRECISIONS["float32"], normal(seed, 200, 1.0)
    own = np.sign(normal(seed + 1, 200, 1.0)) * np.abs(exact) * growth * precision.factor * precision.by_scale * 2**-23
    expected = exact + own
    actual = expected + own * (2 * precision.factor + 1 if is_larger else part)
    result = judged("float32", actual, expected, exact)
    if result.passed:  # it is small
        assert not is_larger
        assert not result.within_own_error
        return
    assert result.within_own_error != is_larger
    assert result.own_error > 0
    assert "more than by rounding" in result.reference


def test_an_output_of_another_shape_in_float64_is_no_reference():
    expected = np.linspace(-1, 1, 9)
    far = compare(spec("float32"), "y", "case", expected + 1, expected, exact=Exact(lambda: ("float64", np.zeros(7))))
    assert not far.passed
    assert far.reference == "PyTorch in float32, by scale: float64 gives [7] where the dtype of the export gives [9]"


def test_infinities_of_float64_where_float32_has_numbers_are_no_reference():
    expected = np.array([1.0, 2.0])
    infinite = Exact(lambda: ("float64", expected * np.inf))
    result = compare(spec(None), "y", "case", expected * 1.00001, expected, exact=infinite)
    assert result.passed
    assert result.reference.endswith("float64 has infinities or NaN where float32 has numbers")


@given(seeds, lengths, st.floats(2.0**-149, 2.0**-126))
def test_numbers_that_some_programs_round_to_zero_agree_with_zero(seed, length, scale):
    exact = np.clip(normal(seed, length, scale), -(2.0**-126), 2.0**-126)
    assert judged("float32", np.zeros(length), exact, exact).passed
    assert not judged("float32", np.full(length, 2.0**-110), exact, exact).passed


def test_a_tolerance_of_the_spec_replaces_the_rule():
    expected = np.array([1.0, 2.0])
    loose, strict = spec("float32", atol=0.1), spec("float32", atol=0.0)
    assert compare(loose, "y", "case", expected + 0.05, expected).passed
    assert not compare(loose, "y", "case", expected + 0.3, expected).passed
    assert not compare(strict, "y", "case", expected + 1e-7, expected).passed


def test_masked_scores_of_float16_do_not_widen_the_bound():
    lowest = float(np.finfo(np.float16).min)
    expected, actual = np.array([lowest, 0.5, 0.25]), np.array([lowest, 0.5, 0.26])
    assert not judged("float16", actual, expected, expected).passed
    assert judged("float16", expected, expected, expected).passed


def test_no_row_of_a_model_has_a_tolerance_of_its_own():
    """All numbers are in one table."""
    tolerance = re.compile(r'"[ar]tol": ')
    assert tolerance.search(onnxfn.to_json(onnxfn.with_tolerance(onnxfn.EMPTY, atol=1e-5)))
    assert [name for name, row in onnxfn.ARCHITECTURES.items() if tolerance.search(onnxfn.to_json(row))] == []


@pytest.mark.parametrize("size", [1e-3, 0.1, 0.7])
def test_an_element_of_which_pytorch_decides_otherwise_in_float64_allows_nothing_in_others(size):
    """One of a million elements: its share of the root mean square is that of rounding."""
    exact = np.sign(normal(0, 1_000_000, 1))
    expected, actual = exact.copy(), exact.copy()
    expected[7] += 0.2
    actual[9] += size
    result = judged("float32", actual, expected, exact)
    assert not result.passed
    assert "in an element, more than by rounding" in result.reference


@pytest.mark.parametrize("with_exact", [False, True])
def test_the_comparison_of_many_elements_calls_tick_often_and_stops_when_that_raises(with_exact, monkeypatch):
    """An output of three blocks: no stretch of the comparison passes over the arrays for long without a call."""
    monkeypatch.setattr("onnxfn.check.verdict.verdict.BLOCK", 100)
    expected = np.linspace(-1, 1, 250, dtype=np.float32)
    actual = (expected * (1 + 3e-6)).astype(np.float32)
    exact = expected.astype(np.float64) * (1 + 1e-6)
    by = Exact(lambda: ("float64", exact)) if with_exact else Exact()
    calls = []

    def compared(tick):
        return compare(spec("float32"), "y", "case", actual, expected, exact=by, tick=tick)

    assert compared(lambda: calls.append(0)).passed
    assert len(calls) > (15 if with_exact else 5)
    for stop_at in range(1, len(calls), 3):
        left = iter(range(stop_at))
        with pytest.raises(StopIteration):
            compared(lambda left=left: next(left))


# Elements that are compared

MASK = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 0, 1, 1, 0]])
ROWS, LENGTH = MASK.shape

PROMPT, CONTINUED = "feature-extraction-with-past", "text-generation-with-past"
"""The tasks whose first file takes no cache, and takes one."""


def part(task):
    return onnxfn.plan(onnxfn.spec_for("llama", task), tiny.config("llama")).parts[0]


@pytest.mark.parametrize(
    ("name", "shape", "axis"), [("last_hidden_state", (ROWS, LENGTH, 7), 1), ("present.0.key", (ROWS, 2, LENGTH, 8), 2)]
)
def test_padding_is_left_out_of_a_prompt_with_its_cache(name, shape, axis):
    planned = part(PROMPT)
    select = valid_elements(planned.spec, planned.spec.outputs[name], {"attention_mask": MASK})
    array = np.random.default_rng(0).standard_normal(shape)
    assert np.array_equal(np.sort(select(array)), np.sort(np.moveaxis(array, axis, 1)[MASK.astype(bool)].ravel()))


@pytest.mark.parametrize("past", [0, 3])
def test_the_last_tokens_of_a_mask_are_those_of_a_shorter_output(past):
    planned = part(CONTINUED)
    logits = np.arange(ROWS * (LENGTH - past) * 2).reshape(ROWS, LENGTH - past, 2)
    selected = valid_elements(planned.spec, planned.spec["logits"], {"attention_mask": MASK})(logits)
    assert selected.tolist() == logits[MASK[:, past:].astype(bool)].ravel().tolist()


def test_what_lies_before_the_mask_is_compared():
    planned = part(PROMPT)
    array = np.ones((ROWS, 2, LENGTH + 4, 8))
    select = valid_elements(planned.spec, planned.spec["present.0.value"], {"attention_mask": MASK})
    assert select(array).size == (ROWS * 4 + MASK.sum()) * 2 * 8
