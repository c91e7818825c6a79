"""The check convicts: a wrong graph fails, a right one does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from refusals import refusal

import onnxfn
from onnxfn.check.check import check, references
from onnxfn.check.compare import compare
from onnxfn.specs.errors import CheckFailed
from onnxfn.specs.plan.check_cases import cases
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.spec import Check

SPEC = onnxfn.PlannedSpec(check=Check(atol=1e-5, rtol=1e-4))
LOWEST = np.finfo(np.float32).min


def judged(answer, truth, spec=SPEC):
    return compare(spec, "y", "case", np.asarray(answer, np.float32), np.asarray(truth, np.float32))


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20))
def test_a_tensor_agrees_with_itself(values):
    assert judged(values, values).passed
    assert judged(values, values).max_abs == 0


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20), st.integers(0, 19))
def test_one_wrong_element_convicts(values, index):
    wrong = list(values)
    wrong[index % len(wrong)] += 0.1
    assert not judged(wrong, values).passed


def test_a_difference_within_the_tolerance_agrees_and_one_beyond_does_not():
    assert judged([1.0 + 5e-5], [1.0]).passed
    assert not judged([1.0 + 5e-4], [1.0]).passed


def test_a_masked_score_does_not_widen_the_tolerance():
    assert not judged([LOWEST, 0.1], [LOWEST, 0.0]).passed
    assert judged([LOWEST, 0.0], [LOWEST, 0.0]).passed


@pytest.mark.parametrize(
    ("answer", "truth", "passed"),
    [
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([np.inf, 1.0], [0.0, 1.0], False),
        ([0.0, 1.0], [np.nan, 1.0], False),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([-np.inf, 1.0], [-np.inf, 1.0], True),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
    ],
)
def test_what_is_not_finite_must_be_the_same(answer, truth, passed):
    assert judged(answer, truth).passed is passed


def test_another_shape_never_agrees():
    told = judged([[1.0]], [1.0])
    assert not told.passed
    assert told.case == "case: float32[1, 1] where PyTorch gives float32[1]"


def test_whole_numbers_must_be_equal():
    assert compare(SPEC, "y", "case", np.array([3]), np.array([3])).passed
    assert not compare(SPEC, "y", "case", np.array([4]), np.array([3])).passed


def test_a_spec_without_cases_is_tried_at_batch_1_and_3_and_at_other_lengths():
    spec = onnxfn.compose(
        onnxfn.takes("x", "batch_size width", "numbers"),
        onnxfn.sized(batch_size=2, width=8),
        onnxfn.gives("y", "batch_size"),
    )
    tried = [{one.name: one.value for one in overlay.dummies.sizes} for overlay in cases(spec)]
    assert tried == [{"batch_size": 1, "width": 11}, {"batch_size": 3, "width": 13}]


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert", "AutoModelForMaskedLM")


@pytest.fixture
def exported(bert, tmp_path):
    return onnxfn.export(onnxfn.spec_for("bert", "fill-mask"), bert, tmp_path / "model.onnx")


def disturbed(file, name, change):
    """The file with one weight changed."""
    model = onnx.load(file)
    (weight,) = (one for one in model.graph.initializer if one.name == name)
    values = numpy_helper.to_array(weight).copy()
    change(values)
    weight.CopyFrom(numpy_helper.from_array(values, name))
    onnx.save(model, file)


def test_a_report_says_every_shape_that_was_tried(exported):
    (one,) = exported.report.differences
    assert [shape[:2] for shape in one.shapes] == [(1, 7), (3, 11), (3, 24)]
    assert (2, 16) not in [shape[:2] for shape in one.shapes]
    assert exported.report.cases[0] == "one (batch_size=1, sequence_length=7)"


def test_a_wrong_weight_is_convicted(bert, exported):
    def change(values):
        values[0] += 0.05

    disturbed(exported.files[0], "bert.encoder.layer.1.output.LayerNorm.bias", change)
    report = onnxfn.validate(onnxfn.spec_for("bert", "fill-mask"), bert, exported)
    assert not report.passed
    assert "FAILED" in str(report)


def test_a_graph_that_ignores_the_mask_is_convicted(bert, exported):
    """What an exporter does that drops the mask: right without padding, wrong with it."""
    model = onnx.load(exported.files[0])
    shape = onnx.helper.make_node("Shape", ["attention_mask"], ["its_shape"])
    ones = onnx.helper.make_node(
        "ConstantOfShape", ["its_shape"], ["ones"], value=numpy_helper.from_array(np.array([1]))
    )
    for node in model.graph.node:
        node.input[:] = ["ones" if name == "attention_mask" else name for name in node.input]
    model.graph.node.insert(0, ones)
    model.graph.node.insert(0, shape)
    onnx.save(model, exported.files[0])
    (one,) = onnxfn.validate(onnxfn.spec_for("bert", "fill-mask"), bert, exported).differences
    assert not one.passed
    assert "padded" in one.worst_case


def test_a_failed_check_is_an_error_that_names_output_shape_and_difference(bert, tmp_path):
    spec = onnxfn.with_tolerance(onnxfn.spec_for("bert", "fill-mask"), atol=0.0, rtol=0.0)
    told = refusal(CheckFailed, onnxfn.export, spec, bert, tmp_path / "model.onnx")
    assert told.startswith("model: 'logits' is ")
    assert "batch_size=3, sequence_length=" in told
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_failed_check_holds_the_report(bert, tmp_path):
    spec = onnxfn.with_tolerance(onnxfn.spec_for("bert", "fill-mask"), atol=0.0, rtol=0.0)
    with pytest.raises(CheckFailed) as caught:
        onnxfn.export(spec, bert, tmp_path / "model.onnx")
    assert caught.value.report.differences[0].max_abs > 0


def test_what_onnx_runtime_cannot_run_is_one_clear_line(bert, tmp_path):
    spec = onnxfn.with_dtypes(onnxfn.spec_for("bert", "fill-mask"), float="bfloat16")
    told = refusal(CheckFailed, onnxfn.export, spec, bert, tmp_path / "model.onnx")
    assert told.endswith("its CPU kernels lack this type: export in float32, or with check=False for another device")
    assert "\n" not in told


def test_a_file_can_be_checked_without_its_plan(bert, exported):
    spec = onnxfn.spec_for("bert", "fill-mask")
    part = plan(spec, bert).parts[0]
    by_path = onnxfn.validate(spec, bert, exported.files[0])
    assert by_path.passed
    assert check(bert, part, Path(exported.files[0])).differences[0].max_abs == by_path.differences[0].max_abs


def test_pytorch_answers_the_same_whether_asked_before_or_during_the_check(bert, exported):
    part = exported.plan.parts[0]
    known = list(references(bert, part))
    assert check(bert, part, Path(exported.files[0]), expected=known) == check(bert, part, Path(exported.files[0]))
    known[1].outputs[0][0] += 1
    assert not check(bert, part, Path(exported.files[0]), expected=known).passed
