"""The outputs of own modules: their dtypes, their axes, and numbers of results that depend on values."""

import numpy as np
import pytest
import torch
from refusals import refusal
from small_modules import derived_export, module
from torch.nn import functional as F  # noqa: N812 - torch's own habit

import onnxfn
from onnxfn.specs.axes import axis_map, symbols


def outputs_of_dtypes(self, x, ids):
    """Outputs of several dtypes; `ids_after` has the dtype of `ids`, `best` is int64 always."""
    y = self.linear(x)
    outputs = {"y": y, "best": y.argmax(-1), "positive": y > 0, "wide": y.double()}
    return {**outputs, "ids_after": ids + 1, "small": (ids % 7).to(torch.uint8)}


@pytest.fixture(scope="module")
def mixed():
    torch.manual_seed(0)
    return module(outputs_of_dtypes, linear=torch.nn.Linear(3, 4)).eval()


@pytest.fixture(scope="module")
def spec(mixed):
    return onnxfn.derived(mixed, sample={"x": torch.randn(2, 3), "ids": torch.arange(8).reshape(2, 4)})


def dtypes(record):
    lines = str(record).splitlines()
    rows = [line.split() for line in lines[lines.index("  outputs") + 1 :][:6]]
    return {row[0]: row[1].partition("[")[0] for row in rows}


FIXED = {"positive": "bool", "wide": "float64", "small": "uint8"}


def test_a_derived_spec_has_the_dtypes_of_a_run(spec):
    assert dtypes(spec) == {"y": "float", "best": "int", "ids_after": "int", **FIXED}
    assert dtypes(onnxfn.plan(spec)) == {"y": "float", "best": "int64", "ids_after": "int64", **FIXED}


EDITS = {
    "none": ({}, ("float32", "int64", "int64")),
    "float16": ({"float": "float16"}, ("float16", "int64", "int64")),
    "int32": ({"int": "int32"}, ("float32", "int64", "int32")),
    "one input": ({"ids": "int32"}, ("float32", "int64", "int32")),
}
"""Types that `with_dtypes` gives -> the dtypes of y, best and ids_after in the file."""


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_has_the_dtypes_of_the_plan(edit, mixed, spec):
    types, expected = EDITS[edit]
    result = onnxfn.export(onnxfn.with_dtypes(spec, **types), mixed)
    assert result.report.passed
    assert dtypes(result) == dict(zip(("y", "best", "ids_after"), expected, strict=True)) | FIXED
    known = {name: dtype for name, dtype in dtypes(result.plan).items() if dtype not in ("", "float", "int")}
    assert known.items() <= dtypes(result).items()
    assert "x " in str(result)
    assert f"{types.get('float', 'float32')}[batch_size, 3]" in str(result)


@pytest.mark.parametrize(("kind", "planned"), [("float", "float32"), ("int32", "int32")])
def test_a_file_with_another_dtype_than_the_plan_is_refused(kind, planned, mixed, spec):
    wrong = onnxfn.compose(spec, onnxfn.gives("best", "batch_size", kind=kind))
    message = refusal(onnxfn.CheckFailed, onnxfn.export, wrong, mixed)
    assert f"'best' is int64 in the file, but {planned} in the plan: write gives('best', ..., kind='int64')" in message


def test_outputs_without_a_kind_have_any_dtype(mixed, spec):
    assert onnxfn.export(onnxfn.compose(spec, onnxfn.gives("best", "batch_size")), mixed).report.passed
    assert onnxfn.with_output(spec, "best", "batch_size", kind="int64").outputs["best"].kind == "int64"


# The axes of outputs are formulas of the axes of inputs, as a trace has them

WAVE, SQUARE = {"x": (torch.randn(2, 4000), "batch samples")}, {"x": (torch.randn(2, 2, 8, 8), "batch 2 high wide")}
PAIR = {"a": (torch.randn(2, 32), "batch n"), "b": (torch.randn(2, 32), "batch m")}
WEIGHT = torch.randn(4, 1, 400)


def spectra(x, size, hop):
    return torch.stft(x, size, hop, window=torch.hann_window(size), return_complex=True).abs()


MODULES = {
    "frames of a sound": (lambda x: F.conv1d(x[:, None], WEIGHT, stride=160), WAVE, "batch 4 (samples-400)//160+1"),
    "spectra": (lambda x: spectra(x, 400, 160), WAVE, "batch 201 samples//160+1"),
    "a lone sound": (lambda x: spectra(x, 40, 16), {"x": (torch.randn(900), "samples")}, "21 samples//16+1"),
    "coordinates": (lambda x: x * torch.linspace(0, 1, x.shape[1]), WAVE, "batch samples"),
    "every 160th": (lambda x: x[:, ::160] * 2, WAVE, "batch (samples+159)//160"),
    "whole windows": (lambda x: F.pad(x, (0, -x.shape[1] % 16)) * 2, WAVE, "batch 16*((samples+15)//16)"),
    "nested": (lambda x: F.max_pool1d(x[:, ::10], 2, 2, ceil_mode=True), WAVE, "batch ((samples+9)//10-1)//2+1"),
    "a sign in front": (lambda x: x[:, x.shape[1] // 3 :] * 2, WAVE, "batch samples-samples//3"),
    "sides of a square": (lambda x: F.avg_pool2d(x, 3, 1, 1), SQUARE, "batch 2 high wide"),
    "patches": (lambda x: F.avg_pool2d(x, 4, 4).flatten(2), SQUARE, "batch 2 high//4*(wide//4)"),
    "a sum of two": (lambda a, b: torch.cat([a[:, ::8], b], 1), PAIR, "batch m+(n+7)//8"),
    "squares": (lambda a, b: (a[:, :, None] * a[:, None]).flatten(1) + b.sum(), PAIR, "batch n*n"),
    "at most 9": (lambda x: x[:, : min(x.shape[1], 9)] * 2, WAVE, "batch output_axis_1"),
    "no formula": (lambda a, b: a[:, : max(a.shape[1] - 8, 1)] + b.sum(), PAIR, "batch output_axis_1"),
}


@pytest.mark.parametrize("name", MODULES)
def test_an_axis_of_an_output_is_a_formula_of_the_trace(name, tmp_path):
    function, inputs, expected = MODULES[name]
    sample, axes = ({key: value[at] for key, value in inputs.items()} for at in (0, 1))
    result = derived_export(function, sample, tmp_path / "m.onnx", axes)
    assert result.outputs["output"] == symbols(axis_map(expected))
    if name == "frames of a sound":
        assert result.report.cases[:2] == ("one (batch=1, samples=4003)", "several (batch=3, samples=4080)")


# Outputs whose number depends on values, as of a detector: masks, indices, the best of at most so many


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
    result = derived_export(function, sample, tmp_path / "m.onnx", {"boxes": "n 2 2", "scores": "n"})
    assert result.outputs == {"kept": {0: "kept_axis_0"}, "best": {0: "kept_axis_0"}}
    decided = {"count != 0": 2, "4 * count <= 4000": 4}  # the lines of the branches in `best`
    places = {text: f"test_derived_outputs.py:{best.__code__.co_firstlineno + line}" for text, line in decided.items()}
    branches = [f"m.onnx: other side of {each} ({place})" for each, place in places.items()] if function is best else []
    assert [*result.report.unchecked][: len(decided)] == branches
    for count in (0, 1, 4, 30):
        boxes, scores = torch.rand(40, 2, 2), (torch.arange(40) < count) * torch.rand(40).add(0.4)
        actual, expected = result(boxes=boxes.numpy(), scores=scores.numpy()), function(boxes, scores)
        for name, tensor in expected.items():
            np.testing.assert_array_equal(actual[name].reshape(-1), tensor.reshape(-1))


def test_the_length_of_a_tensor_is_that_of_its_first_axis():
    result = derived_export(lambda x: x.reshape(len(x), -1) * len(x), torch.rand(2, 3, 4))
    assert result.outputs == {"output": {0: "batch_size"}}
