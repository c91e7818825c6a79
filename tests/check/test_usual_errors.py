"""PyTorch's own error in an output of few elements is that of several inputs, since it may be small by luck in one."""

from functools import partial

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

import onnxfn
from onnxfn.check.cases.references import references
from onnxfn.check.verdict.case_comparisons import MOST_INPUTS, agreeing_with_any_case, usual_errors
from onnxfn.check.verdict.compare import FEW_ELEMENTS, Exact, compare
from onnxfn.check.verdict.verdict import PRECISIONS, Comparison, Norms, exact_outputs

FLOAT32 = PRECISIONS["float32"]
SPEC = onnxfn.PlannedSpec(target=onnxfn.specs.algebra.spec.Target(float_dtype="float32"))


@pytest.mark.parametrize(
    ("length", "usual", "passed"),
    [
        (3, FLOAT32.agreement, True),
        (3, 1, False),
        (3, 1e6, False),
        (FEW_ELEMENTS, FLOAT32.agreement, True),
        (FEW_ELEMENTS + 1, 1e3, False),
    ],
)
def test_the_usual_error_counts_in_outputs_of_few_elements(length, usual, passed):
    expected = np.ones(length)  # PyTorch has no error at all, and the graph twice what always agrees
    actual = expected + 2 * FLOAT32.agreement * FLOAT32.unit_roundoff
    norms = Norms(usual * FLOAT32.unit_roundoff, usual * FLOAT32.unit_roundoff)
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    exact = Exact(lambda: ("float64", expected), usual_errors=[lambda: norms])
    assert compare(SPEC, "y", "case", *arrays, exact=exact).passed == passed


def test_other_inputs_are_computed_until_the_output_agrees():
    expected, computed = np.ones(3), []
    actual = expected + 2 * FLOAT32.agreement * FLOAT32.unit_roundoff

    def usual(size):
        computed.append(size)
        return Norms(size * FLOAT32.unit_roundoff, size * FLOAT32.unit_roundoff)

    usual_of_each = [partial(usual, size) for size in (1, FLOAT32.agreement, 2 * FLOAT32.agreement)]
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    exact = Exact(lambda: ("float64", expected), usual_errors=usual_of_each)
    assert compare(SPEC, "y", "case", *arrays, exact=exact).passed
    assert computed == [1, FLOAT32.agreement]


@pytest.mark.parametrize(("own", "passed"), [((2, 30), True), ((2, 2), False), ((2, None), False)])
def test_an_error_agrees_that_pytorch_has_in_another_case(classifier, own, passed):
    """The error of the first case is 40 roundings; that of the second is allowed by PyTorch's own there."""
    _, part = classifier
    first, second = (None if size is None else rounded(size) for size in own)
    comparisons = [
        Comparison("y", "one", (9,), 0, 0, 0, passed=False, norms=rounded(40), own_norms=first),
        Comparison("y", "two", (9,), 0, 0, 0, passed=True, norms=second and rounded(9), own_norms=second),
    ]
    assert [each.passed for each in agreeing_with_any_case(part, comparisons)] == [passed, True]


@given(st.integers(0, 2**32 - 1), st.floats(0, 200), st.floats(0, 200), st.floats(0, 900))
def test_what_the_error_of_an_earlier_case_allows_is_allowed_with_float64(classifier, seed, own, earlier, error):
    """All sizes are unit roundoffs. Without float64 no more is allowed than with it; a small difference is."""
    _, part = classifier
    random = np.random.default_rng(seed)
    expected = random.normal(size=100)
    exact, actual = (
        expected + size * FLOAT32.unit_roundoff * np.sqrt(np.mean(expected**2)) * random.choice([-1, 1], 100)
        for size in (own, error)
    )
    computed = []

    def wider():
        computed.append("float64")
        return "float64", exact

    first = Comparison("y", "one", (100,), 0, 0, 0, passed=True, norms=rounded(0), own_norms=rounded(earlier))
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    second = compare(SPEC, "y", "two", *arrays, exact=Exact(wider, known=first.own_norms))
    if not computed:
        assert second.passed
        full = compare(SPEC, "y", "two", *arrays, exact=Exact(wider))
        assert all(each.passed for each in agreeing_with_any_case(part, [first, full]))


def test_a_case_needs_no_float64_if_an_earlier_one_shows_a_larger_error():
    expected = np.ones(100)
    actual = expected + 40 * FLOAT32.unit_roundoff
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    comparison = compare(SPEC, "y", "two", *arrays, exact=Exact(known=rounded(30)))
    assert comparison.passed
    assert comparison.reference == "PyTorch in float32, by its own error that is known before"
    assert not compare(SPEC, "y", "two", *arrays, exact=Exact(lambda: ("float64", expected), known=rounded(1))).passed


def test_no_known_error_allows_what_is_refused_without_float64():
    expected = np.ones(100)
    actual = expected + 2 * FLOAT32.by_scale * FLOAT32.unit_roundoff
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    assert not compare(SPEC, "y", "two", *arrays, exact=Exact(known=rounded(4 * FLOAT32.by_scale))).passed


def test_an_output_without_an_error_in_float64_stays_as_it_was_judged(classifier):
    _, part = classifier
    comparisons = [
        Comparison("y", "another shape", (9,), np.inf, np.inf, 0, passed=False),
        Comparison("y", "two", (9,), 0, 0, 0, passed=True, norms=rounded(9), own_norms=rounded(1e9)),
    ]
    assert agreeing_with_any_case(part, comparisons) == comparisons


def rounded(size):
    """Norms of so many unit roundoffs."""
    return Norms(size * FLOAT32.unit_roundoff, size * FLOAT32.unit_roundoff)


@pytest.fixture(scope="module")
def classifier():
    model = tiny.model("bert", "AutoModelForSequenceClassification")
    return model, onnxfn.plan(onnxfn.spec_for("bert", "text-classification"), model.config).parts[0]


def test_the_usual_errors_are_those_for_other_inputs_of_the_same_sizes(classifier):
    model, part = classifier
    exact = exact_outputs(model, "float32")
    for reference in references(model, part):
        count = min(MOST_INPUTS, -(-FEW_ELEMENTS // reference.outputs[0].size))
        others = [reference.other(number) for number in range(1, count + 1)]
        assert len({other.inputs["input_ids"].tobytes() for other in (reference, *others)}) == 1 + count > 5
        assert {other.inputs["input_ids"].shape for other in others} == {reference.inputs["input_ids"].shape}
        peaks = [np.abs(other.outputs[0] - exact(part, other.inputs)[1][0]) for other in others]
        scales = [np.sqrt(np.mean(other.outputs[0].astype(float) ** 2)) for other in others]
        errors = [np.sqrt(np.mean(peak**2)) / scale for peak, scale in zip(peaks, scales, strict=True)]
        of_inputs = [usual().rms for usual in usual_errors(part, 0, reference, exact)]
        assert of_inputs == pytest.approx(errors)


def test_real_inputs_have_no_usual_error(classifier):
    model, part = classifier
    arrays = next(references(model, part)).inputs
    *_, real = references(model, part, arrays)
    assert real.case.startswith("preprocessed")
    assert usual_errors(part, 0, real, exact_outputs(model, "float32")) == ()
