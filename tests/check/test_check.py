"""The check fails for a wrong graph and passes for a right one."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve
from graph_edits import at, changed_weight, edited_file
from refusals import refusal
from structure_faults import mask_ignored
from vector_specs import vector_spec

import onnxfn
from onnxfn import Check, CheckFailed, ModelNotFound, Report
from onnxfn.check.cases.references import check_cases, references
from onnxfn.check.check import check
from onnxfn.check.verdict.compare import compare
from onnxfn.run.sessions import open_session
from onnxfn.specs.axis_symbols import traced_sizes
from onnxfn.specs.plan.check_cases import cases
from onnxfn.specs.plan.planning import plan

SPEC = onnxfn.PlannedSpec(check=Check(atol=1e-5, rtol=1e-4))
LOWEST = np.finfo(np.float32).min


def comparison(actual, expected, spec=SPEC):
    return compare(spec, "y", "case", np.asarray(actual, np.float32), np.asarray(expected, np.float32))


def test_a_masked_score_does_not_widen_the_tolerance():
    assert not comparison([LOWEST, 0.1], [LOWEST, 0.0]).passed
    assert comparison([LOWEST, 0.0], [LOWEST, 0.0]).passed


@pytest.mark.parametrize(
    ("actual", "expected", "passed"),
    [
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([np.inf, 1.0], [0.0, 1.0], False),
        ([0.0, 1.0], [np.nan, 1.0], False),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([-np.inf, 1.0], [-np.inf, 1.0], True),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
    ],
)
def test_infinities_and_nan_must_be_the_same(actual, expected, passed):
    assert comparison(actual, expected).passed is passed


def test_another_shape_never_agrees():
    result = comparison([[1.0]], [1.0])
    assert not result.passed
    assert result.case == "case: float32[1, 1] where PyTorch gives float32[1]"


def test_integers_must_be_equal():
    assert compare(SPEC, "y", "case", np.array([3]), np.array([3])).passed
    assert not compare(SPEC, "y", "case", np.array([4]), np.array([3])).passed


def test_a_spec_without_cases_is_checked_at_batch_1_and_3_and_at_other_lengths():
    spec = onnxfn.compose(
        onnxfn.takes("x", "batch_size width", "numbers"),
        onnxfn.sized(batch_size=2, width=8),
        onnxfn.gives("y", "batch_size"),
    )
    sizes = [traced_sizes(case) for case in cases(plan(spec, {}).parts[0].spec)]
    assert sizes == [{"batch_size": 1, "width": 11}, {"batch_size": 3, "width": 13}]


def test_cases_with_the_same_inputs_are_one():
    """The side of the padding differs, which no input shows but a mask."""
    case, sized, takes = onnxfn.case, onnxfn.sized, onnxfn.takes
    sides = (case(f"{side}-padded", sized(batch_size=3, length=7), onnxfn.padded(side)) for side in ("right", "left"))
    without_mask = onnxfn.compose(
        takes("ids", "batch_size length", "tokens"),
        onnxfn.generates("tokens", "integers", high=9),
        onnxfn.gives("scores", "batch_size 9"),
        sized(batch_size=2, length=9),
        *sides,
    )
    with_mask = onnxfn.compose(without_mask, takes("mask", "batch_size length", "padding_mask"))
    names = [[each.name for each in check_cases(plan(spec, {}).parts[0])] for spec in (without_mask, with_mask)]
    assert names == [["right-padded"], ["right-padded", "left-padded"]]


def test_a_graph_whose_rows_depend_on_one_another_fails_where_those_of_the_model_do_not(tmp_path):
    head = torch.nn.Linear(3, 9)
    spec = vector_spec(3, 9)
    result = onnxfn.export(spec, lambda x: {"y": head(x) + head(x).amax(dim=0, keepdim=True)}, tmp_path)
    assert not onnxfn.validate(spec, lambda x: {"y": head(x)}, result).passed


@pytest.fixture
def exported(bert, tmp_path):
    return onnxfn.export(onnxfn.spec_for("bert", "fill-mask"), bert, tmp_path / "model.onnx")


def test_a_report_has_the_shape_of_every_case(exported):
    (difference,) = exported.report.differences
    assert [shape[:2] for shape in difference.shapes] == [(1, 7), (3, 11), (6, 5), (1, 94)]
    assert (2, 16) not in [shape[:2] for shape in difference.shapes]
    assert exported.report.cases[0] == "one (batch_size=1, sequence_length=7)"


def test_a_wrong_weight_fails(bert, exported):
    first = "bert.encoder.layer.1.output.LayerNorm.bias"
    edited_file(exported.files[0], changed_weight(first, lambda array: array + 0.05 * (np.arange(len(array)) == 0)))
    report = onnxfn.validate(onnxfn.spec_for("bert", "fill-mask"), bert, exported)
    assert not report.passed
    assert "FAILED" in str(report)


def test_a_graph_that_ignores_the_mask_fails(bert, exported):
    """An exporter that drops the mask writes such a graph: right without padding, wrong with padding."""
    edited_file(exported.files[0], at(mask_ignored, "attention_mask"))
    (difference,) = onnxfn.validate(onnxfn.spec_for("bert", "fill-mask"), bert, exported).differences
    assert not difference.passed
    assert "one" not in difference.worst_case


def test_the_error_of_a_failed_check_names_output_and_sizes_and_holds_the_report(bert, tmp_path):
    spec = onnxfn.with_tolerance(onnxfn.spec_for("bert", "fill-mask"), atol=0.0, rtol=0.0)
    with pytest.raises(CheckFailed, match=r"^model: 'logits' is .*batch_size=\d, sequence_length=\d") as caught:
        onnxfn.export(spec, bert, tmp_path / "model.onnx")
    assert caught.value.report.differences[0].max_abs > 0
    assert not list(tmp_path.iterdir())


def test_a_type_that_onnx_runtime_cannot_run_is_one_clear_line_without_a_report(bert, tmp_path):
    spec = onnxfn.with_dtypes(onnxfn.spec_for("bert", "fill-mask"), float="bfloat16")
    with pytest.raises(CheckFailed) as caught:
        onnxfn.export(spec, bert, tmp_path / "model.onnx")
    message, way = str(caught.value), 'by with_dtypes(spec, float="float32") or model.float()'
    advice = f"its CPU kernels lack this type: export in float32, {way}, or with check=False for another device"
    assert message.endswith(advice)
    assert "\n" not in message
    assert caught.value.report == Report([], [], [message])


def test_a_file_that_onnx_runtime_cannot_load_is_an_error_without_a_report(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_text("not a graph")
    with pytest.raises(CheckFailed, match=r"ONNX Runtime cannot load model\.onnx: ") as caught:
        open_session(file)
    assert caught.value.report == Report([], [], [str(caught.value)])


def test_inputs_that_onnx_runtime_cannot_run_are_an_error_without_a_report(bert, exported):
    part = exported.plan.parts[0]
    reference = next(references(bert, part))
    reference.inputs["input_ids"][:] = 10**6
    with pytest.raises(CheckFailed, match=r"ONNX Runtime cannot run model\.onnx at one \(batch_size=1, ") as caught:
        check(bert, part, Path(exported.files[0]), expected=lambda *_, **__: [reference])
    assert caught.value.report == Report([], [], [str(caught.value)])


def test_a_file_that_does_not_exist_is_not_opened(tmp_path):
    assert refusal(ModelNotFound, open_session, tmp_path / "model.onnx").startswith(f"no file {tmp_path}/model.onnx; ")


def test_a_file_can_be_checked_without_its_plan(bert, exported):
    spec = onnxfn.spec_for("bert", "fill-mask")
    part = plan(spec, bert).parts[0]
    by_path, by_part = onnxfn.validate(spec, bert, exported.files[0]), check(bert, part, Path(exported.files[0]))
    assert by_path.passed
    assert by_part.passed
    assert by_part.cases == by_path.cases  # not the errors: they depend on the number of threads, that on idle cores


def test_references_are_the_same_whether_computed_before_or_during_the_check(bert, exported):
    part, file = exported.plan.parts[0], Path(exported.files[0])
    expected = list(references(bert, part))
    assert check(bert, part, file, expected=lambda *_, **__: expected) == check(bert, part, file)
    expected[1].outputs[0][0] += 1
    expected[1] = evolve(expected[1], drawn=None)  # PyTorch then differs from these by more than rounding
    assert not check(bert, part, file, expected=lambda *_, **__: expected).passed


def test_threads_that_load_a_file_and_read_its_weights_end_before_the_last_case(bert, exported):
    part, file, threads = exported.plan.parts[0], Path(exported.files[0]), []

    def later_cases_when_threads_ended(before):
        for index, reference in enumerate(references(bert, part)):
            if index:
                end = time.monotonic() + 10
                while threading.active_count() > before + 1 and time.monotonic() < end:  # one runs ONNX Runtime
                    time.sleep(0.01)
                threads.append(threading.active_count() - before)
            yield reference

    before = threading.active_count()
    check(bert, part, file, expected=lambda *_, **__: later_cases_when_threads_ended(before))
    assert threads
    assert max(threads) <= 1
