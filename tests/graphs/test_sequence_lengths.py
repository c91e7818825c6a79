"""Functions whose trace would fix the length of a sequence: recurrent layers are one operator of ONNX per layer."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
import torch
from torch import nn

import onnxfn
from onnxfn import CaptureFailed
from onnxfn.graphs.capture.sequence_lengths import dynamic_lengths

LAYERS = {
    "GRU": nn.GRU(4, 5, num_layers=2, bidirectional=True),
    "LSTM": nn.LSTM(4, 5, bias=False, num_layers=2),
    "RNN": nn.RNN(4, 5, bidirectional=True, num_layers=2),
}


@pytest.mark.parametrize("operator", LAYERS)
def test_a_recurrent_layer_is_one_operator_per_layer_for_any_length(operator, tmp_path):
    spec = onnxfn.derived(LAYERS[operator], sample=torch.randn(6, 2, 4), axes={"input": "time batch_size _"})
    result = onnxfn.export(spec, LAYERS[operator], tmp_path / "model.onnx")
    assert result.report.passed
    assert result.outputs["output_0"] == {0: "time", 1: "batch_size"}
    assert Counter(node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node)[operator] == 2


def test_a_projection_is_refused_with_advice(tmp_path):
    layer = nn.LSTM(4, 5, proj_size=3)
    spec = onnxfn.derived(layer, sample=torch.randn(6, 2, 4), axes={"input": "time batch_size _"})
    with pytest.raises(
        CaptureFailed, match="an LSTM with proj_size has no operator in ONNX; set proj_size=0, and put a"
    ):
        onnxfn.export(spec, layer, tmp_path / "model.onnx")


def test_the_functions_of_torch_are_restored():
    functions = torch.max_pool1d, torch._VF.gru, torch._VF.lstm
    with dynamic_lengths():
        assert torch.max_pool1d is not functions[0]
    assert (torch.max_pool1d, torch._VF.gru, torch._VF.lstm) == functions
