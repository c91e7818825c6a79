"""PyTorch's own error is that of several roundings and cases, since it may be small by luck in one."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

import onnxfn
from onnxfn.check.cases.references import Reference, references
from onnxfn.check.verdict.case_comparisons import CheckedFile, agreeing_with_any_case, output_comparisons
from onnxfn.check.verdict.compare import Exact, compare
from onnxfn.check.verdict.roundings import rounded_otherwise
from onnxfn.check.verdict.verdict import PRECISIONS, Comparison, Norms, exact_outputs
from onnxfn.models.forward import torch_outputs

FLOAT32 = PRECISIONS["float32"]
SPEC = onnxfn.PlannedSpec(target=onnxfn.specs.algebra.spec.Target(float_dtype="float32"))


def numbers(*units, size=3):
    return np.resize(1 + np.array(units) * FLOAT32.unit_roundoff, size)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("rounded", "passed"), [(FLOAT32.agreement, True), (1, False), (1e6, False)])
def test_the_error_of_another_rounding_is_allowed_unless_it_is_none(size, rounded, passed):
    """PyTorch has no error at all, by luck, and the graph twice what always agrees."""
    exact = Exact(lambda: ("float64", numbers(0, size=size)), [lambda: ("again", numbers(rounded, size=size))])
    actual, expected = numbers(2 * FLOAT32.agreement, size=size).astype(np.float32), numbers(0, size=size)
    assert compare(SPEC, "y", "case", actual, expected.astype(np.float32), exact=exact).passed == passed


def test_pytorch_rounds_otherwise_until_the_output_agrees():
    computed = []

    def again(units):
        computed.append(units)
        return "again", numbers(units)

    roundings = [partial(again, units) for units in (1, FLOAT32.agreement, 2 * FLOAT32.agreement)]
    actual, expected = numbers(2 * FLOAT32.agreement).astype(np.float32), numbers(0).astype(np.float32)
    assert compare(SPEC, "y", "case", actual, expected, exact=Exact(lambda: ("float64", numbers(0)), roundings)).passed
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
    arrays = ((expected + 40 * FLOAT32.unit_roundoff).astype(np.float32), expected.astype(np.float32))
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
    return Norms(size * FLOAT32.unit_roundoff, size * FLOAT32.unit_roundoff)


@pytest.fixture(scope="module")
def classifier():
    model = tiny.model("bert", "AutoModelForSequenceClassification")
    return model, onnxfn.plan(onnxfn.spec_for("bert", "text-classification"), model.config).parts[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_outputs_that_are_rounded_otherwise_differ_by_roundings_alone(classifier, dtype):
    model, part = classifier
    model = deepcopy(model).to(getattr(torch, dtype))
    reference = next(references(model, part, dtype=dtype))
    outputs = [rounded_otherwise(model, part, reference.inputs, dtype, seed)[1][0] for seed in (1, 2, 1)]
    assert (outputs[0] == outputs[2]).all()
    assert len({array.tobytes() for array in (*outputs, *reference.outputs)}) == 3
    scale = np.sqrt(np.mean(reference.outputs[0] ** 2))
    errors = [np.abs(array - reference.outputs[0]).max() / scale for array in outputs]
    assert max(errors) < 100 * PRECISIONS[dtype].unit_roundoff


class Cancelled(torch.nn.Module):
    """One, and the difference of two equal sums: all digits of that are rounding."""

    def forward(self, x):
        return 1 + x.sum(1, keepdim=True) - x @ torch.ones(x.shape[1], 1, dtype=x.dtype)


def test_rounding_that_pytorch_lacks_by_luck_is_no_fault_and_more_is(tmp_path):
    """PyTorch rounds nothing for these inputs. The outputs that are tried are 1 to 100 roundings of a sum away."""
    part = onnxfn.plan(onnxfn.derived(Cancelled(), sample={"x": torch.ones(1, 400)}), {}).parts[0]
    inputs = {"x": np.full((1, 400), 2.0, np.float32)}
    reference = Reference("a case", inputs, torch_outputs(Cancelled(), part, inputs))
    assert reference.outputs[0].item() == 1
    checked = CheckedFile(Cancelled(), part, tmp_path, exact_outputs(Cancelled(), "float32"))
    of_a_sum = 800 * FLOAT32.unit_roundoff
    tried = [output_comparisons(checked, reference, (np.float32([[1 + of_a_sum * each]]),)) for each in (1, 2, 30, 100)]
    assert [comparison.passed for (comparison,) in tried] == [True, True, False, False]
