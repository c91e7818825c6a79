"""A model whose weights amplify rounding is refused for this reason, and its layers are not all traced for it."""

import importlib
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from graph_edits import change_weights
from torch import nn
from vector_specs import vector_spec

import onnxfn
from onnxfn.check.verdict.case_comparisons import OTHER_VALUES
from onnxfn.export.run.attempts import RETRACED

LAYERS, WIDTH = 40, 64
SPEC = vector_spec(WIDTH)
ATTEMPTS = importlib.import_module("onnxfn.export.run.attempts")


class Model(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=gain / WIDTH**0.5)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return {"y": x}


class Sometimes(nn.Module):
    """A linear layer, and the model that amplifies rounding, for inputs for which `when` is true."""

    def __init__(self, when):
        super().__init__()
        self.amplifying, self.linear, self.when = Model(2.5), nn.Linear(WIDTH, WIDTH), when

    def forward(self, x):
        return {"y": self.linear(x) + self.amplifying(x)["y"] * self.when(x)}


def test_values_decide_for_which_rounding_does_not(tmp_path):
    torch.manual_seed(0)
    model, file = Sometimes(lambda x: x.mean() > 0), tmp_path / "out" / "model.onnx"
    report = onnxfn.export(SPEC, model, tmp_path / "out").report
    [difference] = report.differences
    assert report.passed
    assert any(OTHER_VALUES in text for text in difference.references)
    change_weights(file, {"linear.bias": lambda array: array + np.float32(1e-3)})
    [difference] = onnxfn.validate(SPEC, model, tmp_path / "out").differences
    assert not difference.passed


def test_small_and_far_sizes_at_which_rounding_decides_are_named(tmp_path):
    """Lengths above 14 are none of the spec's; they are tried besides."""
    torch.manual_seed(0)
    model, file = Sometimes(lambda x: torch.ones_like(x[0, :, 0]).sum() > 14), tmp_path / "out" / "model.onnx"
    spec = onnxfn.derived(model, sample=torch.randn(2, 9, WIDTH), axes={"x": f"batch_size length {WIDTH}"})
    report = onnxfn.export(spec, model, tmp_path / "out").report
    assert report.passed
    assert [name.split(" (")[0] for name in report.unchecked] == ["model.onnx: larger sizes"]
    change_weights(file, {"linear.bias": lambda array: array + np.float32(1e-3)})
    assert not onnxfn.validate(spec, model, tmp_path / "out").passed


@pytest.fixture
def graphs(monkeypatch):
    counted = Mock(wraps=ATTEMPTS._graphs)
    monkeypatch.setattr(ATTEMPTS, "_graphs", counted)
    return counted


def test_a_model_that_amplifies_rounding_is_refused_with_the_reason_after_one_trace(tmp_path, graphs):
    torch.manual_seed(0)
    with pytest.raises(onnxfn.CheckFailed, match="these weights amplify rounding") as caught:
        onnxfn.export(SPEC, Model(2.5), tmp_path / "out")
    [difference] = caught.value.report.differences
    assert difference.within_own_error
    assert difference.own_error > difference.tolerance
    assert "onnxfn.bisect" not in str(caught.value)
    assert graphs.call_count == 1


def test_a_wrong_file_of_such_a_model_is_refused_for_what_is_wrong(tmp_path, graphs, monkeypatch):
    """A layer is written with another bias. That may be a fault of repeated layers, so all layers are traced, too."""
    torch.manual_seed(0)
    own = ATTEMPTS.write_graphs
    model = Model(2.5)

    def with_other_weights(*arguments, **named):
        saved = model.layers[7].bias.detach().clone()
        model.layers[7].bias.data += 0.1
        files = own(*arguments, **named)
        model.layers[7].bias.data.copy_(saved)
        return files

    monkeypatch.setattr(ATTEMPTS, "write_graphs", with_other_weights)
    with pytest.raises(onnxfn.CheckFailed) as caught:
        onnxfn.export(SPEC, model, tmp_path / "out")
    assert "amplify" not in str(caught.value)
    assert graphs.call_count == 2


def test_a_model_that_does_not_amplify_rounding_passes(tmp_path):
    torch.manual_seed(0)
    result = onnxfn.export(SPEC, Model(0.9), tmp_path / "out")
    assert result.report.passed
    assert not any(difference.within_own_error for difference in result.report.differences)
    assert result.repeats != (RETRACED,)
