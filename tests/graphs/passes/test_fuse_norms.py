"""Norms and reciprocals are fused, in graphs written by hand."""

import onnx
import onnx_ir
import onnxruntime
import pytest
from small_graphs import fused_graph, graph_from_text, noise, operators

from onnxfn.graphs.fusions.fusing import fuse_operators, fusions
from onnxfn.specs.stored.reports import Fusion

RMS_NORM = """
norm (float[b,s,8] x) => (float[b,s,8] y) <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float two = {2.0}, float e = {1e-6},
 int64[1] last = {-1}, float one = {1.0}> {
    square = Pow (x, two)
    mean = ReduceMean <keepdims = 1> (square, last)
    safe = Add (mean, e)
    root = Sqrt (safe)
    inverse = Reciprocal (root)
    even = Mul (x, inverse)
    weight = Add (w, one)
    y = Mul (even, weight)
}"""
LAYER_NORM = RMS_NORM.replace(
    "square = Pow (x, two)",
    "m = ReduceMean <keepdims = 1> (x, last)\n centered = Sub (x, m)\n square = Pow (centered, two)",
).replace("even = Mul (x, inverse)", "even = Mul (centered, inverse)")


def test_an_rms_norm_is_one_operator_from_opset_23_on():
    assert fusions(fused_graph(RMS_NORM, x=noise(2, 3, 8))) == (Fusion("RMSNormalization", 1),)
    assert fusions(fused_graph(RMS_NORM, opset=22, x=noise(2, 3, 8))) == ()


@pytest.mark.parametrize("opset", [18, 23])
def test_a_layer_norm_is_one_operator(opset):
    assert fusions(fused_graph(LAYER_NORM, opset=opset, x=noise(2, 3, 8))) == (Fusion("LayerNormalization", 1),)


def test_the_weight_of_a_norm_is_not_read():
    model = graph_from_text(RMS_NORM)
    model.graph.initializers["w"].const_value = None
    assert operators(fuse_operators(model)) == ["Add", "RMSNormalization"]


def test_onnx_runtime_fuses_a_norm_for_which_the_opset_has_no_operator(tmp_path):
    plain_weight = RMS_NORM.replace("weight = Add (w, one)\n    y = Mul (even, weight)", "y = Mul (even, w)")
    onnx_ir.save(fused_graph(plain_weight, opset=18, x=noise(2, 3, 8)), tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    optimized = onnx.load(tmp_path / "optimized.onnx")
    assert [node.op_type for node in optimized.graph.node] == ["SimplifiedLayerNormalization"]


def test_a_reciprocal_that_another_node_reads_stays():
    text = """
    half (float[n] x, float[n] r) => (float[n] y, float[n] z) {
        inverse = Reciprocal (r)
        y = Mul (x, inverse)
        z = Add (inverse, y)
    }"""
    model = fused_graph(text, opset=18, x=noise(4), r=noise(4, seed=1))
    assert operators(model) == ["Reciprocal", "Mul", "Add"]


def test_a_norm_of_a_tensor_of_unknown_shape_is_not_fused():
    model = fused_graph(RMS_NORM, unknown_shapes=("x",), x=noise(2, 3, 8))
    assert "RMSNormalization" not in operators(model)


def test_a_norm_whose_output_has_an_unknown_shape_is_fused():
    model = fused_graph(RMS_NORM, unknown_shapes=("y", "even"), x=noise(2, 3, 8))
    assert operators(model) == ["Add", "RMSNormalization"]
