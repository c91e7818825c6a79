"""PyTorch answers large images row by row, once for all cases; in one batch if rows depend on one another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import onnxfn
from onnxfn import case, compose, generates, gives, padded, sized, takes
from onnxfn.check.cases import check_cases
from onnxfn.check.check import check
from onnxfn.check.references import LARGE_ROWS, references
from onnxfn.specs.plan.check_cases import LARGE_INPUTS

SIDE = 250
SPEC = compose(
    takes("pixels", f"batch_size 3 {SIDE} {SIDE}", "pixels", kind="float"),
    gives("scores", "batch_size 9"),
    generates("pixels", "normal"),
    sized(batch_size=2),
)


def model_of(rows):
    """A model of images that computes with the means of its rows, and the batches that it was called with."""
    module, batches = torch.nn.Module(), []
    module.head = torch.nn.Linear(3, 9)

    def forward(pixels):
        batches.extend(size for size in pixels.shape[:1] if type(size) is int)  # a trace has a symbol
        return {"scores": rows(module.head(pixels.mean(dim=(2, 3))))}

    module.forward = forward
    return module.eval(), batches


def each_alone(scores):
    return scores


def added_to_the_best(scores):
    return scores + scores.amax(dim=0, keepdim=True)  # a difference would have the rounding of both


def test_the_images_are_large_and_three_of_them_are_affordable():
    assert LARGE_ROWS < 3 * 3 * SIDE**2 < LARGE_INPUTS


def test_pytorch_runs_each_row_once_and_the_largest_case_has_the_outputs_of_all():
    model, batches = model_of(each_alone)
    one, several = references(model, onnxfn.plan(SPEC, {}).parts[0])
    assert batches == [1, 1, 1]
    assert one.alone is None
    assert np.array_equal(one.inputs["pixels"], several.inputs["pixels"][:1])
    assert np.array_equal(one.outputs[0], several.outputs[0][:1])
    np.testing.assert_allclose(several.alone().outputs[0], several.outputs[0], atol=1e-6)
    assert batches == [1, 1, 1, 3]


def test_a_model_whose_output_is_no_row_for_each_image_answers_each_case():
    model, batches = model_of(lambda scores: scores.mean(dim=0))
    one, several = references(model, onnxfn.plan(SPEC, {}).parts[0])
    assert one.alone is several.alone is None
    assert batches == [1, 1, 1, 1, 3]


def test_small_images_are_answered_case_by_case():
    model, batches = model_of(each_alone)
    small = compose(SPEC, takes("pixels", "batch_size 3 32 32", "pixels", kind="float"))
    assert [reference.alone for reference in references(model, onnxfn.plan(small, {}).parts[0])] == [None, None]
    assert batches == [1, 3]


def test_a_quantized_file_is_measured_against_each_case():
    model, batches = model_of(each_alone)
    [*references(model, onnxfn.plan(onnxfn.quantize(SPEC, bits=8), {}).parts[0])]
    assert batches == [1, 3]


@pytest.mark.parametrize("rows", [each_alone, added_to_the_best])
def test_a_model_passes_its_check_whether_its_rows_depend_on_one_another_or_not(rows, tmp_path):
    model, batches = model_of(rows)
    result = onnxfn.export(SPEC, model, tmp_path)
    assert result.report.passed
    assert (3 in batches) == (rows is added_to_the_best)


def test_a_graph_whose_rows_depend_on_one_another_fails_where_those_of_the_model_do_not(tmp_path):
    wrong, right = model_of(added_to_the_best)[0], model_of(each_alone)[0]
    right.load_state_dict(wrong.state_dict())
    result = onnxfn.export(SPEC, wrong, tmp_path)
    assert not onnxfn.validate(SPEC, right, result).passed


def test_pytorch_answers_the_rows_in_one_batch_before_float64_is_asked(tmp_path):
    model, batches = model_of(added_to_the_best)
    result = onnxfn.export(SPEC, model, tmp_path, check=False)

    def no_exact(part, inputs):
        pytest.fail("float64 is not needed")

    batches.clear()
    assert check(model, result.plan.parts[0], tmp_path / "model.onnx", exact=no_exact).passed
    assert batches == [1, 1, 1, 3]


def test_cases_with_the_same_inputs_are_one():
    """The side of the padding differs, which no input shows but a mask."""
    sides = (case(f"{side}-padded", sized(batch_size=3, sequence_length=7), padded(side)) for side in ("right", "left"))
    without_mask = compose(
        SPEC,
        takes("ids", "batch_size sequence_length", "tokens"),
        generates("tokens", "integers", high=9),
        sized(sequence_length=9),
        *sides,
    )
    with_mask = compose(without_mask, takes("mask", "batch_size sequence_length", "padding_mask"))
    names = [[each.name for each in check_cases(onnxfn.plan(spec, {}).parts[0])] for spec in (without_mask, with_mask)]
    assert names == [["right-padded"], ["right-padded", "left-padded"]]
