"""Functions whose trace would fix the length of a sequence: recurrent layers are one operator of ONNX per layer."""

from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from small_modules import derived_export
from torch import nn

import onnxfn
from onnxfn.graphs.capture.sequence_lengths import dynamic_lengths

LAYERS = {
    "GRU": nn.GRU(4, 5, num_layers=2, bidirectional=True),
    "LSTM": nn.LSTM(4, 5, bias=False, num_layers=2),
    "RNN": nn.RNN(4, 5, bidirectional=True, num_layers=2),
}


@pytest.mark.parametrize("operator", LAYERS)
def test_a_recurrent_layer_is_one_operator_per_layer_for_any_length(operator, tmp_path):
    result = derived_export(LAYERS[operator], torch.randn(6, 2, 4), tmp_path / "model.onnx", "time batch_size _")
    assert result.outputs["output_0"] == {0: "time", 1: "batch_size"}
    assert Counter(node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node)[operator] == 2


def test_an_lstm_with_a_projection_is_a_scan_over_any_length(tmp_path):
    layer = nn.LSTM(4, 5, num_layers=2, bidirectional=True, proj_size=3)
    result = derived_export(layer, torch.randn(6, 2, 4), tmp_path / "model.onnx", "time batch_size _")
    assert Counter(node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node)["Scan"] == 4
    steps = torch.randn(40, 7, 4)
    outputs, (hidden, cell) = layer(steps)
    actual = result(input=steps)
    for name, expected in (("output_0", outputs), ("output_1_0", hidden), ("output_1_1", cell)):
        np.testing.assert_allclose(actual[name], expected.detach(), rtol=1e-4, atol=1e-6)


# Packed sequences


class Packed(nn.Module):
    """A recurrent layer over packed sequences, whose data go through a linear layer first."""

    def __init__(self, layer, *, total=False):
        super().__init__()
        self.layer, self.linear, self.total = layer, nn.Linear(4, 4), total

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        data = self.linear(packed.data).relu()
        packed = nn.utils.rnn.PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        states, last = self.layer(packed)
        total = x.shape[1] if self.total else None
        padded = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, padding_value=-2.0, total_length=total)
        return *padded, last, data.mean()


PACKED = {
    "GRU": nn.GRU(4, 5, num_layers=2, bidirectional=True, batch_first=True),
    "LSTM": nn.LSTM(4, 5, bidirectional=True),
    "RNN": nn.RNN(4, 5, bidirectional=True, bias=False),
    "LSTM with a projection": nn.LSTM(4, 5, bidirectional=True, proj_size=2),
}


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences_have_any_lengths(name, total, tmp_path):
    model = Packed(PACKED[name], total=total)
    sample = {"x": torch.randn(3, 6, 4), "lengths": torch.tensor([6, 2, 4])}
    result = derived_export(model, sample, tmp_path / "model.onnx", {"x": "batch_size time _"})
    for lengths in ([1, 9, 3, 9, 12], [2], [1, 1]):
        fed = {"x": torch.randn(len(lengths), 12, 4), "lengths": torch.tensor(lengths)}
        for actual, wanted in zip(result(**fed).values(), torch.utils._pytree.tree_leaves(model(**fed)), strict=True):
            np.testing.assert_allclose(actual, wanted.detach(), rtol=1e-4, atol=1e-6)


def test_lengths_out_of_order_are_refused_in_the_words_of_torch():
    def packed(x, lengths):
        return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data

    sample = {"x": torch.randn(8, 6, 4), "lengths": torch.tensor([6, 6, 5, 4, 4, 3, 2, 1])}
    spec = onnxfn.derived(packed, sample=sample, axes={"x": "batch_size time _"}, ranges={"lengths": (3, 4)})
    assert spec.outputs[0].name == "output"
    with pytest.raises(onnxfn.InvalidSpec, match="You can pass `enforce_sorted=False`"):
        onnxfn.derived(packed, sample=sample, axes={"x": "batch_size time _"}, ranges={"lengths": (1, 7)})


def test_the_functions_of_torch_are_restored():
    functions = torch.max_pool1d, torch._VF.gru, torch._VF.lstm
    with dynamic_lengths(torch.nn.Identity()):
        assert torch.max_pool1d is not functions[0]
    assert (torch.max_pool1d, torch._VF.gru, torch._VF.lstm) == functions
