"""PyTorch's own error in an output of few elements is that of several inputs, since it may be small by luck in one."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

import onnxfn
from onnxfn.check.compare import FEW_ELEMENTS, Norms, compare
from onnxfn.check.exact_outputs import exact_outputs
from onnxfn.check.precision import PRECISIONS
from onnxfn.check.references import references
from onnxfn.check.usual_errors import OTHER_INPUTS, usual_error

FLOAT32 = PRECISIONS["float32"]
SPEC = onnxfn.PlannedSpec(target=onnxfn.specs.spec.Target(float_dtype="float32"))


def is_passed(length, usual):
    """Whether a graph agrees whose error is twice what always agrees, where PyTorch has no error at all."""
    expected = np.ones(length)
    actual = expected + 2 * FLOAT32.agreement * FLOAT32.unit_roundoff
    norms = Norms(usual * FLOAT32.unit_roundoff, usual * FLOAT32.unit_roundoff)
    exact = ("float64", expected)
    arrays = (actual.astype(np.float32), expected.astype(np.float32))
    return compare(SPEC, "y", "case", *arrays, exact=lambda: exact, usual_error=lambda: norms).passed


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
    assert is_passed(length, usual) == passed


@pytest.fixture(scope="module")
def classifier():
    model = tiny.model("bert", "AutoModelForSequenceClassification")
    spec = onnxfn.spec_for("bert", "text-classification")
    return model, spec, onnxfn.plan(spec, model.config).parts[0]


def test_the_usual_error_is_the_largest_over_other_inputs_of_the_same_sizes(classifier):
    model, _, part = classifier
    exact = exact_outputs(model, "float32")
    for reference in references(model, part):
        others = [reference.other(number) for number in range(1, OTHER_INPUTS + 1)]
        assert len({other.inputs["input_ids"].tobytes() for other in (reference, *others)}) == 1 + OTHER_INPUTS
        assert {other.inputs["input_ids"].shape for other in others} == {reference.inputs["input_ids"].shape}
        peaks = [np.abs(other.outputs[0] - exact(part, other.inputs)[1][0]) for other in others]
        scales = [np.sqrt(np.mean(other.outputs[0].astype(float) ** 2)) for other in others]
        errors = [np.sqrt(np.mean(peak**2)) / scale for peak, scale in zip(peaks, scales, strict=True)]
        assert usual_error(part, 0, reference, exact)().rms == pytest.approx(max(errors))


def test_real_inputs_have_no_usual_error(classifier):
    model, _, part = classifier
    arrays = next(references(model, part)).inputs
    *_, real = references(model, part, arrays)
    assert real.case.startswith("preprocessed")
    assert usual_error(part, 0, real, exact_outputs(model, "float32")) is None
