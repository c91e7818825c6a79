import numpy as np
import onnx
import onnx_ir as ir
import pytest
from refusals import refusal
from small_graphs import run_unoptimized

from onnxfn.graphs.nodes.slots import merge_slots
from onnxfn.graphs.passes.merging import insert_filler
from onnxfn.specs.errors import CaptureFailed

X = np.array([[1, 1], [2, 2]], dtype="float32")


def value(name, *shape):
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


def model_of(inputs, outputs, nodes, weights):
    for output in outputs:
        output.shape, output.type = ir.Shape(["n", 2]), ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(inputs, outputs, nodes=nodes, initializers=weights, opset_imports={"": 18}, name="main")
    return ir.Model(graph, ir_version=10)


def main_model():
    x, past = value("x", "n", 2), value("past.state", "n", 2)
    total, passed = ir.node("Add", [past, x]), ir.node("Identity", [past])
    total.outputs[0].name, passed.outputs[0].name = "total", "present.state"
    return model_of([x, past], [total.outputs[0], passed.outputs[0]], [total, passed], [])


def filler():
    factors = ir.tensor(np.array([2.0, 3.0], dtype="float32"), name="w")
    x, factor = value("x", "n", 2), ir.Value(name="w", const_value=factors)
    scaled = ir.node("Mul", [x, factor])
    passed = ir.node("Identity", [scaled.outputs[0]])
    scaled.outputs[0].name, passed.outputs[0].name = "total", "present.state"
    return model_of([x], [passed.outputs[0]], [scaled, passed], [factor])


def merged():
    return merge_slots(insert_filler(main_model(), filler(), {"present.state": "past.state"}))


def test_an_empty_input_is_computed_and_another_is_used_as_it_is():
    total, state = run_unoptimized(merged(), **{"x": X, "past.state": np.zeros((0, 2), dtype="float32")})
    assert (total.tolist(), state.tolist()) == ([[3, 4], [6, 8]], [[2, 3], [4, 6]])
    total, state = run_unoptimized(merged(), **{"x": X, "past.state": 10 * X})
    assert (total.tolist(), state.tolist()) == ((11 * X).tolist(), (10 * X).tolist())


def test_the_graph_is_valid_and_has_the_inputs_outputs_and_weights_of_both():
    graph = merged().graph
    onnx.checker.check_model(ir.to_proto(merged()), full_check=True)
    assert [value.name for value in graph.inputs] == ["x", "past.state"]
    assert [value.name for value in graph.outputs] == ["total", "present.state"]
    assert list(graph.initializers) == ["w"]
    assert "Identity" not in [node.op_type for node in graph]  # ONNX Runtime would copy the state once more


@pytest.mark.parametrize(
    ("takes", "stands_for", "words"),
    [
        ("x", "past", "the outputs of the filler must be inputs of the graph; unknown: past; known: x, past.state"),
        ("ids", "past.state", "the inputs of the filler must be inputs of the graph; unknown: ids; known: x, past"),
    ],
)
def test_a_filler_that_does_not_fit_the_graph_is_refused(takes, stands_for, words):
    other = filler()
    other.graph.inputs[0].name = takes
    assert words in refusal(CaptureFailed, insert_filler, main_model(), other, {"present.state": stands_for})
