"""A float16 graph that keeps values in float32 computes the same function: powers of two change no digit."""

import numpy as np
import onnx
import onnx_ir
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import graph_from_text, graph_text, noise, run_unoptimized

from onnxfn.check.variants.float_form import float_form
from onnxfn.graphs.nodes.slots import SLOT, Slot
from onnxfn.graphs.wide_values import WIDE, keep_in_float32, overflow_text, overflowing_values

GRAPH = graph_text("wide_values.GRAPH")
WEIGHTS = {"weight": noise(4, 4), "bias": noise(4, seed=1), "table": noise(4, 4, seed=2)}
ENDS = {"least": -64504.0, "most": 64504.0, "low": -65504.0, "zero": 0.0}
FEEDS = {"x": noise(3, 4, seed=3).astype(np.float16), "ids": np.array([[1, 0, 2, 3]] * 3)}
COMPUTED = ("wide", "residual", "clipped", "state", "product", "again", "y")


def graph():
    model = graph_from_text(GRAPH)
    for number, node in enumerate(model.graph):
        node.name = f"layers.1/{node.op_type}_{number}"
    for value in [each for each in model.graph.inputs if each.name not in FEEDS]:
        model.graph.inputs.remove(value)
        value.const_value = onnx_ir.tensor(np.asarray((WEIGHTS | ENDS)[value.name], np.float16), name=value.name)
        value.meta.update({SLOT: Slot(f"model.{value.name}.weight")} if value.name in WEIGHTS else {})
        model.graph.initializers.add(value)
    return model


def in_float32(model, folder):
    onnx_ir.save(model, folder / "model.onnx")
    content, _ = float_form(folder / "model.onnx", "float16")
    return run_unoptimized(onnx_ir.from_proto(onnx.ModelProto.FromString(content)), **FEEDS)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(COMPUTED), st.floats(4e4, 1e9), min_size=1))
def test_any_values_may_be_kept_in_float32_without_another_digit(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("wide")
    mended = keep_in_float32(graph(), sizes)
    for expected, actual in zip(in_float32(graph(), folder), in_float32(mended, folder), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert mended.metadata_props[f"onnxfn.{WIDE}"] == " ".join(sizes)
    assert [value.dtype.name for value in mended.graph.outputs] == ["FLOAT16", "FLOAT16"]
    onnx.checker.check_model(onnx_ir.to_proto(mended), full_check=True)


def test_the_residual_is_float32_between_the_nodes_and_no_matrix_is_cast():
    nodes = list(keep_in_float32(graph(), {"wide": 1e5, "residual": 1e5, "clipped": 1e5}).graph)
    assert "Clip" not in {node.op_type for node in nodes}
    casts = [node.inputs[0] for node in nodes if node.op_type == "Cast"]
    assert {"weight", "table"}.isdisjoint(value.name for value in casts)
    [square] = [node for node in nodes if node.op_type == "Mul" and node.inputs[0] is node.inputs[1]]
    assert square.inputs[0].producer().op_type == "Add"


def test_masks_and_ends_of_float16_do_not_overflow():
    ranges = {"hiding": (-65504.0, 0.0), "masked": (-65600.0, 9.0), "clipped": (-40.0, 4e4), "wide": (-3e4, 3e4)}
    assert overflowing_values(graph(), ranges) == {"clipped": 4e4}
    assert overflow_text(graph(), {"residual": 1.1e5, "state": 2e5}) == (
        "layers.1 reaches 1.1e+05, layers.1 reaches 2e+05: float16 ends at 65504"
    )
