"""A graph inside another that computes what comes empty."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from onnxfn.graphs.passes.merging import insert_filler
from onnxfn.graphs.passes.slots import merge_slots


def value(name, *shape, type=ir.DataType.FLOAT):  # noqa: A002
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(type))


def weight(name, array):
    return ir.Value(name=name, const_value=ir.tensor(array, name=name))


def graph(inputs, outputs, nodes, weights):
    for one in outputs:
        one.shape, one.type = ir.Shape(["n", 2]), ir.TensorType(ir.DataType.FLOAT)
    made = ir.Graph(inputs, outputs, nodes=nodes, initializers=weights, opset_imports={"": 18}, name="main")
    return ir.Model(made, ir_version=10)


def main():
    """kept + x, kept: `kept` is the input that may come empty."""
    x, kept = value("x", "n", 2), value("past.kept", "n", 2)
    total, given = ir.node("Add", [kept, x]), ir.node("Identity", [kept])
    total.outputs[0].name, given.outputs[0].name = "total", "present.kept"
    return graph([x, kept], [total.outputs[0], given.outputs[0]], [total, given], [])


def filler():
    """x * w, which is what `kept` is made of; one name is also one of the graph that it goes into."""
    x, factor = value("x", "n", 2), weight("w", np.array([2.0, 3.0], dtype="float32"))
    scaled = ir.node("Mul", [x, factor])
    passed = ir.node("Identity", [scaled.outputs[0]])
    scaled.outputs[0].name, passed.outputs[0].name = "total", "present.kept"
    return graph([x], [passed.outputs[0]], [scaled, passed], [factor])


def made():
    return merge_slots(insert_filler(main(), filler(), {"present.kept": "past.kept"}))


def run(feeds):
    session = onnxruntime.InferenceSession(ir.to_proto(made()).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["total", "present.kept"], feeds)


X = np.array([[1, 1], [2, 2]], dtype="float32")


def test_an_input_that_comes_empty_is_computed():
    total, kept = run({"x": X, "past.kept": np.zeros((0, 2), dtype="float32")})
    assert kept.tolist() == [[2, 3], [4, 6]]
    assert total.tolist() == [[3, 4], [6, 8]]


def test_an_input_that_comes_full_is_passed_on():
    total, kept = run({"x": X, "past.kept": 10 * X})
    assert kept.tolist() == (10 * X).tolist()
    assert total.tolist() == (11 * X).tolist()


def test_inputs_and_outputs_are_as_they_were():
    found = made().graph
    assert [one.name for one in found.inputs] == ["x", "past.kept"]
    assert [one.name for one in found.outputs] == ["total", "present.kept"]


def test_weights_stand_in_the_main_graph():
    assert list(made().graph.initializers) == ["w"]


def test_the_graph_is_valid_onnx():
    onnx.checker.check_model(ir.to_proto(made()), full_check=True)
