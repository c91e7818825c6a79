import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from small_graphs import fused_graph, graph_from_text, graph_text, noise, operators, run_unoptimized

from onnxfn.graphs.fusions.fusing import fuse_operators, fusions
from onnxfn.specs.stored.reports import Fusion

RMS_NORM = graph_text("norms.RMS_NORM")
LAYER_NORM = RMS_NORM.replace(
    "square = Pow (x, two)",
    "m = ReduceMean <keepdims = 1> (x, last)\n centered = Sub (x, m)\n square = Pow (centered, two)",
).replace("even = Mul (x, inverse)", "even = Mul (centered, inverse)")


def test_an_rms_norm_is_one_operator_from_opset_23_on():
    assert fusions(fused_graph(RMS_NORM, x=noise(2, 3, 8))) == (Fusion("RMSNormalization", 1),)
    assert fusions(fused_graph(RMS_NORM, opset=22, x=noise(2, 3, 8))) == ()
    for more in ("", "\n    even2 = Mul (even, two)"):  # the length of a vector is a norm, too, and so is half of it
        text = RMS_NORM.replace("ReduceMean", "ReduceSum")
        text = text.replace("even = Mul (x, inverse)", f"even = Mul (x, inverse){more}")
        text = text.replace("Mul (even, weight)", "Mul (even2, weight)") if more else text
        assert sorted(operators(fused_graph(text, x=noise(2, 3, 8)))) == ["Add", "Mul", "RMSNormalization"]


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
    model = fused_graph(graph_text("norms.HALF"), opset=18, x=noise(4), r=noise(4, seed=1))
    assert operators(model) == ["Reciprocal", "Mul", "Add"]


def test_a_norm_of_a_tensor_of_unknown_shape_is_not_fused():
    assert "RMSNormalization" not in operators(fused_graph(RMS_NORM, unknown_shapes=("x",), x=noise(2, 3, 8)))


def test_a_norm_whose_output_has_an_unknown_shape_is_fused():
    model = fused_graph(RMS_NORM, unknown_shapes=("y", "even"), x=noise(2, 3, 8))
    assert operators(model) == ["Add", "RMSNormalization"]


# Masks

# A mask as torch gathers it: at every row and every column.
GATHERED = graph_text("norms.GATHERED")
# The shapes as torch writes them; the shape inference of ONNX does not find them.
SHAPES = {
    "rows": ["batch"],
    "columns": ["keys"],
    "row_axis": ["batch", 1, 1, 1],
    "column_axis": [1, 1, 1, "keys"],
    "gathered": ["batch", 1, 1, "keys"],
    "sure": ["batch", 1, 1, "keys"],
}


def simplified_operators(text):
    """The operators of the fused graph of a mask, which computes the same mask."""
    model = graph_from_text(text)
    for value in [output for node in model.graph for output in node.outputs if output.name in SHAPES]:
        value.shape = onnx_ir.Shape(SHAPES[value.name])
    feeds = {"mask": noise(3, 5) > 0, "more": noise(3, 1, 1, 5, seed=1) > 0}
    expected = run_unoptimized(model, **feeds)
    fused = fuse_operators(model)
    assert np.array_equal(run_unoptimized(fused, **feeds)[0], expected[0])
    return operators(fused)


def test_a_mask_whose_elements_are_all_gathered_in_order_is_unsqueezed():
    assert simplified_operators(GATHERED) == ["Unsqueeze", "And"]


@pytest.mark.parametrize(
    ("line", "other_line"),
    [
        (
            "indices = Concat <axis = -1> (row_indices, column_indices)",
            "indices = Concat <axis = -1> (row_indices, row_indices)",
        ),
        ("columns = Range (start, keys, one)", "c = Sub (keys, one)\n columns = Range (c, less, less)"),
        ("rows = Range (start, batch, one)", "r = Range (start, batch, one)\n rows = Mul (r, start)"),
    ],
    ids=["rows twice", "columns backwards", "the first row only"],
)
def test_a_mask_that_is_gathered_in_another_way_is_still_gathered(line, other_line):
    text = GATHERED.replace(line, other_line).replace("int64 one = {1},", "int64 one = {1}, int64 less = {-1},")
    assert "GatherND" in simplified_operators(text)


def test_an_expand_between_unknown_shapes_stays():
    text = graph_text("norms.EXPAND")
    model = fused_graph(text, unknown_shapes=("x", "wide"), x=noise(1, 3), sizes=np.array([2, 3]))
    assert operators(model) == ["Expand", "Neg"]


def test_the_bias_of_a_layer_is_added_after_the_residual_that_a_norm_reads(tmp_path):
    """ONNX Runtime's kernel of SkipLayerNormalization on the CPU is slower than the sums and the norm."""
    text = graph_text("norms.BIASED").replace("WEIGHTS", ", ".join(map(str, range(64))))
    model = fused_graph(text, opset=18, x=noise(2, 3, 8))
    assert operators(model) == ["LayerNormalization", "MatMul", "Add", "Add", "LayerNormalization"]
    repeated = text.replace("b,s,8] x", "b,s,8] x, float[1,s,8] q").replace("(x, scale", "(q, scale")
    fused_graph(repeated.replace("MatMul (normed", "MatMul (x"), opset=18, x=noise(2, 3, 8), q=noise(1, 3, 8))
    onnx_ir.save(model, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    assert [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node] == operators(model)


@pytest.mark.parametrize(
    ("sizes", "reshapes"), [("b,s,2,4", ["Reshape"]), ("n,2,4", ["Unsqueeze", "Reshape", "Reshape"])]
)
def test_reshapes_in_turn_are_one_where_each_size_is_a_number_or_that_of_the_same_axis(sizes, reshapes):
    text = graph_text("norms.RESHAPES").replace("SIZES", sizes)
    shape = np.array([6, 2, 4] if sizes.startswith("n") else [2, 3, 2, 4])
    assert operators(fused_graph(text, x=noise(2, 3, 8), sizes=shape)) == reshapes
