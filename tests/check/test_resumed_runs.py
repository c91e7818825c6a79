"""PyTorch runs again with ONNX Runtime's answers at thresholds, from the first layer on that such an answer changes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import onnxfn
from onnxfn import compose, generates, gives, sized, takes
from onnxfn.check.choices import ANSWERED
from onnxfn.check.layer_calls import listed_layers
from onnxfn.check.precision import precision_of
from onnxfn.check.references import references
from onnxfn.check.resumed_runs import outputs_with_answers, recorded_results, run_in_place
from onnxfn.check.thresholds import with_answers
from onnxfn.graphs.capture.forward import torch_outputs

ROWS, COLUMNS, WIDTH, LAYERS = 1200, 400, 6, 5


def spec_of(rows):
    """A spec of images of so many rows: `ROWS` of them are large."""
    return compose(
        takes("pixels", f"batch_size {rows} {COLUMNS}", "pixels", kind="float"),
        gives("scores", f"batch_size {rows} {WIDTH}"),
        generates("pixels", "normal"),
        sized(batch_size=2),
    )


SPEC = spec_of(ROWS)


class Layer(torch.nn.Module):
    """A layer that counts its calls."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls = torch.nn.Linear(WIDTH, WIDTH), [0]

    def forward(self, hidden):
        self.calls[0] += 1
        return torch.tanh(self.inner(hidden))


class Masker(torch.nn.Module):
    """A model that negates features before one of its layers, where a mask is not above 1.

    The mask is 1 everywhere but for rounding: `exp(x) * exp(-x)`. `after_layer` changes what a layer returned.
    """

    def __init__(self, masked_before, after_layer=lambda _, hidden: hidden):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(COLUMNS, WIDTH)
        self.layers = torch.nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.masked_before, self.after_layer = masked_before, after_layer
        self.masks = []

    def forward(self, pixels):
        hidden = self.first(pixels)
        for index, layer in enumerate(self.layers):
            if index == self.masked_before:
                mask = torch.exp(hidden) * torch.exp(-hidden) > 1.0
                self.masks.append(mask)
                hidden = torch.where(mask, hidden, -hidden)
            hidden = self.after_layer(index, layer(hidden))
        return {"scores": hidden}


def first_run(model, spec=SPEC):
    """The part of a model, its first reference, the results of its layers in that run, and its own mask there."""
    part = onnxfn.plan(spec, {}).parts[0]
    with recorded_results(listed_layers(model)) as results:
        reference = next(iter(references(model, part)))
    return part, reference, results(), model.masks[-1].numpy()


def flipped(mask):
    """A mask that differs at a hundredth of the positions: all are 1 but for rounding."""
    return mask ^ (np.random.default_rng(0).random(mask.shape) < 0.01)


@pytest.mark.parametrize("masked_before", range(LAYERS))
def test_a_resumed_run_gives_what_a_whole_run_gives_and_computes_the_later_layers_alone(masked_before):
    model = Masker(masked_before).eval()
    part, reference, results, own = first_run(model)
    with with_answers([flipped(own)], precision_of("float32")):
        [whole] = torch_outputs(model, part, reference.inputs)
    before = [layer.calls[0] for layer in model.layers]
    [resumed] = outputs_with_answers(model, part, reference.inputs, results, {"mask": flipped(own)})
    assert np.array_equal(resumed, whole)
    assert not np.array_equal(resumed, reference.outputs[0])
    computed = [layer.calls[0] - calls for layer, calls in zip(model.layers, before, strict=True)]
    assert computed == [int(index >= masked_before) for index in range(LAYERS)]
    assert np.array_equal(torch_outputs(model, part, reference.inputs)[0], reference.outputs[0])


def test_answers_that_are_pytorchs_own_give_no_outputs():
    model = Masker(2).eval()
    part, reference, results, own = first_run(model)
    assert outputs_with_answers(model, part, reference.inputs, results, {"mask": own}) is None
    assert outputs_with_answers(model, part, reference.inputs, results, {}) is None


def called_twice(model, index, hidden):
    return model.layers[1](hidden) if index == 1 else hidden


def changed_in_place(_, hidden):
    hidden += 1.0
    return hidden


def test_a_layer_that_is_called_twice_or_whose_result_is_changed_is_computed_again():
    model = Masker(3).eval()
    model.after_layer = lambda index, hidden: called_twice(model, index, hidden)
    part, reference, results, own = first_run(model)
    assert [*results] == ["layers.0", "layers.2", "layers.3", "layers.4"]
    model.after_layer = changed_in_place
    part, reference, results, own = first_run(model)
    assert not results
    with with_answers([flipped(own)], precision_of("float32")):
        whole = torch_outputs(model, part, reference.inputs)
    assert np.array_equal(
        outputs_with_answers(model, part, reference.inputs, results, {"mask": flipped(own)})[0], whole[0]
    )


def compared_with(report):
    return {text for each in report.differences for text in each.references}


def test_a_large_model_whose_mask_is_a_matter_of_rounding_is_compared_without_float64(tmp_path):
    exported = onnxfn.export(SPEC, Masker(2).eval(), tmp_path / "model.onnx")
    assert exported.report.passed
    answered = [text for text in compared_with(exported.report) if ANSWERED in text]
    assert answered
    assert all("float64 was not needed" in text for text in answered)


def with_weight(path, name, change):
    model = onnx.load(path)
    weight = next(each for each in model.graph.initializer if each.name == name)
    weight.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(weight).copy()), name))
    onnx.save(model, path)


@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_fault_in_any_layer_is_found(layer, tmp_path):
    model = Masker(2).eval()
    onnxfn.export(SPEC, model, tmp_path / "model.onnx")
    name = f"layers.{layer}.inner.bias"
    with_weight(tmp_path / "model.onnx", name, lambda array: array + np.float32(1e-3))
    assert not onnxfn.validate(SPEC, model, tmp_path / "model.onnx").passed


def test_small_images_run_the_file_itself(tmp_path):
    for rows, has_content in ((3, False), (ROWS, True)):
        exported = onnxfn.export(spec_of(rows), Masker(2).eval(), tmp_path / str(rows), check=False)
        run = run_in_place(exported.plan.parts[0], tmp_path / str(rows) / "model.onnx")
        assert (run is not None) == has_content
    model = onnx.ModelProto.FromString(run.content)
    [scores, answer] = [output.name for output in model.graph.output]
    assert scores == "scores"
    assert next(node for node in model.graph.node if answer in node.output).op_type == "Greater"
    assert run.has_thresholds
