"""Outputs whose number depends on values, as of a detector: masks, indices, the best of at most so many."""

import numpy as np
import pytest
import torch

import onnxfn


def best(boxes, scores):
    boxes, scores = boxes[scores > 0.3], torch.masked_select(scores, scores > 0.3)
    if len(boxes) == 0:
        return {"kept": boxes.flatten(1), "best": scores}
    if boxes.numel() > 4000:
        boxes = boxes.flip(0).flip(0)
    order = scores.topk(min(5, len(scores))).indices
    return {"kept": boxes[order].flatten(1), "best": scores[order]}


def indices(boxes, scores):
    places = torch.where(scores > 0.3)[0]
    return {"kept": boxes[places] * 2, "best": places}


@pytest.mark.parametrize("function", [best, indices])
def test_a_number_of_detections_moves(function, tmp_path):
    sample = {"boxes": torch.rand(20, 2, 2), "scores": torch.rand(20)}
    spec = onnxfn.derived(function, sample=sample, axes={"boxes": "n 2 2", "scores": "n"})
    result = onnxfn.export(spec, function, tmp_path / "m.onnx")
    assert result.outputs == {"kept": {0: "kept_axis_0"}, "best": {0: "kept_axis_0"}}
    decided = ["count != 0 (test_detections.py:12)", "4 * count <= 4000 (test_detections.py:14)"]
    branches = [f"m.onnx: other side of {each}" for each in decided] if function is best else []
    assert [*result.report.unchecked][: len(decided)] == branches
    for count in (0, 1, 4, 30):
        boxes, scores = torch.rand(40, 2, 2), (torch.arange(40) < count) * torch.rand(40).add(0.4)
        actual, expected = result(boxes=boxes.numpy(), scores=scores.numpy()), function(boxes, scores)
        for name, tensor in expected.items():
            np.testing.assert_array_equal(actual[name].reshape(-1), tensor.reshape(-1))


def test_the_length_of_a_tensor_is_that_of_its_first_axis():
    function = lambda x: x.reshape(len(x), -1) * len(x)  # noqa: E731
    spec = onnxfn.derived(function, sample=torch.rand(2, 3, 4))
    assert onnxfn.export(spec, function).outputs == {"output": {0: "batch_size"}}
