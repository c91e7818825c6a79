"""The axes of the outputs of own modules are formulas of their inputs' axes, as a trace has them."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - torch's own habit

import onnxfn
from onnxfn.specs.axes import axis_map, symbols

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
    "no formula": (lambda a, b: a[:, : max(a.shape[1] - 8, 1)] + b.sum(), PAIR, "batch output_axis_1"),
}


@pytest.mark.parametrize("name", MODULES)
def test_an_axis_of_an_output_is_a_formula_of_the_trace(name, tmp_path):
    function, inputs, expected = MODULES[name]
    sample, axes = ({key: value[at] for key, value in inputs.items()} for at in (0, 1))
    spec = onnxfn.derived(function, sample=sample, axes=axes)
    result = onnxfn.export(spec, function, tmp_path / "m.onnx")
    assert result.report.passed
    assert result.outputs["output"] == symbols(axis_map(expected))
    if name == "frames of a sound":
        assert result.report.cases[:2] == ("one (batch=1, samples=4003)", "several (batch=3, samples=4080)")
