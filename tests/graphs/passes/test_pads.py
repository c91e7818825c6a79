import numpy as np
import onnx
import onnx_ir
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from small_modules import derived_export, module

from onnxfn.graphs.passes.simplify import separate_pads


@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 2, 1, 0)])
def test_the_largest_of_negative_numbers_and_zeros_is_zero(padding, tmp_path):
    forward = lambda self, x: torch.nn.functional.max_pool2d(self.pad(x), 3, stride=2)  # noqa: E731
    model, sample = module(forward, pad=torch.nn.ConstantPad2d(padding, 0.0)).eval(), -1 - torch.rand(2, 3, 9, 11)
    options = {"axes": "batch_size 3 height width", "ranges": {"x": (-5.0, -1.0)}}
    exported = derived_export(model, sample, tmp_path / "model.onnx", **options)
    x = -1 - np.random.default_rng(0).random((1, 3, 6, 7), np.float32)
    result = exported(x=x)["output"]
    assert np.array_equal(result, model(torch.from_numpy(x)).numpy())
    assert result.max() == 0


@given(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(1, 3))
@settings(max_examples=20)
def test_the_graph_computes_the_same(sizes, batch):
    top, left, bottom, right = sizes
    text = f"""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[n, c, h, w] x) => (float[n, c, p, q] y)
    <int64[8] pads = {{0, 0, {top}, {left}, 0, 0, {bottom}, {right}}}, float zero = {{0}}>
    {{
        padded = Pad (x, pads, zero)
        y = MaxPool <kernel_shape = [2, 2], pads = [0, 0, 0, 0]> (padded)
    }}
    """
    before = onnx.parser.parse_model(text)
    after = onnx_ir.to_proto(separate_pads(onnx_ir.from_proto(before)))
    x = -1 - np.random.default_rng(0).random((batch, 2, 5, 4), np.float32)
    expected, result = (ReferenceEvaluator(model).run(None, {"x": x})[0] for model in (before, after))
    assert np.array_equal(result, expected)
