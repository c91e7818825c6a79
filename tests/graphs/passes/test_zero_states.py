"""A recurrent operator reads no first state that is zero; the graph computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from small_graphs import graph_from_text, noise, run_unoptimized

import onnxfn
from onnxfn.graphs.fusions.fusing import drop_zero_states

LSTM = """
lstm (float[time, batch, 3] x, float[1, 8, 3] w, float[1, 8, 2] r, float[1, batch, 2] state)
    => (float[time, 1, batch, 2] y)
<float[2, 1, 2] zeros = {0, 0, 0, 0}, float[1, 1, 2] ones = {1, 1},
 int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>
{
    batch = Shape <start = 1, end = 2> (x)
    sizes = Concat <axis = 0> (two, batch, two)
    sizes_of_one = Concat <axis = 0> (one, batch, two)
    both = Expand (zeros, sizes)
    hidden = Slice (both, zero, one)
    cell = Expand (ones, sizes_of_one)
    y, h, c = LSTM <hidden_size = 2> (x, w, r, , , FIRST)
}"""


def states_after(first):
    """The names of the states that an LSTM reads after the pass; its outputs are as before."""
    model = graph_from_text(LSTM.replace("FIRST", first), opset=18)
    feeds = {"x": noise(4, 3, 3), "w": noise(1, 8, 3), "r": noise(1, 8, 2), "state": noise(1, 3, 2)}
    expected = run_unoptimized(model, **feeds)
    without = drop_zero_states(model)
    assert all(map(np.array_equal, run_unoptimized(without, **feeds), expected))
    (lstm,) = (node for node in without.graph if node.op_type == "LSTM")
    return [None if value is None else value.name for value in lstm.inputs[5:]]


@pytest.mark.parametrize(
    ("first", "left"),
    [
        ("hidden, hidden", [None, None]),  # part of zeros that are expanded to the batch
        ("hidden, cell", [None, "cell"]),  # one state that is not zero
        ("cell, hidden", ["cell", None]),
        ("state, hidden", ["state", None]),  # a state that the graph takes
        ("hidden", [None]),
    ],
)
def test_a_state_is_left_out_if_it_is_zero(first, left):
    assert states_after(first) == left


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_recurrent_layer_without_states_makes_no_zeros(layer, layers, tmp_path):
    model = layer(4, 5, num_layers=layers)
    spec = onnxfn.derived(model, sample=torch.randn(6, 2, 4), axes={"input": "time batch_size _"})
    assert onnxfn.export(spec, model, tmp_path / "model.onnx").report.passed
    operators = {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert operators.isdisjoint({"Expand", "Shape"})
