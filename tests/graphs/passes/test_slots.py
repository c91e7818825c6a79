from functools import partial

import numpy as np
import onnx_ir as ir
import torch

from onnxfn.graphs.nodes.slots import SLOT, Slot, bind_weights, merge_slots, pretranspose, slot_of, to_slots

WEIGHT = torch.arange(6.0).reshape(2, 3)
TABLE = torch.ones(3)


def initializer(name, tensor):
    torch_tensor = ir.tensor_adapters.TorchTensor(tensor, name=name)
    return ir.Value(
        name=name, const_value=torch_tensor, shape=torch_tensor.shape, type=ir.TensorType(ir.DataType.FLOAT)
    )


def model_of(nodes, initializers):
    outputs = [output for node in nodes for output in node.outputs if not output.uses()]
    for index, output in enumerate(outputs):
        output.name = f"y{index}"
    graph = ir.Graph([], outputs, nodes=nodes, initializers=initializers, opset_imports={"": 18})
    return ir.Model(graph, ir_version=10)


def test_equal_parameters_are_one_slot_and_other_tensors_stay():
    first, second, table = initializer("a", WEIGHT), initializer("b", WEIGHT), initializer("c", TABLE)
    model = model_of([ir.node("Add", [first, second]), ir.node("Neg", [table])], [first, second, table])
    graph = to_slots(model, lambda tensor: {WEIGHT.data_ptr(): "layer.weight"}.get(tensor.data_ptr())).graph
    assert set(graph.initializers) == {"a", "c"}
    assert slot_of(graph.initializers["a"]) == Slot("layer.weight")
    assert graph.initializers["a"].const_value is None
    assert [value.name for value in graph[0].inputs] == ["a", "a"]
    assert slot_of(graph.initializers["c"]) is None


def slots_model(*consumers):
    value = ir.Value(name="w", shape=ir.Shape([2, 3]), type=ir.TensorType(ir.DataType.FLOAT))
    value.meta[SLOT] = Slot("layer.weight")
    nodes = [node for consumer in consumers for node in consumer(value)]
    return model_of(nodes, [value])


def transposed(value, **attributes):
    node = ir.node("Transpose", [value], attributes=attributes)
    return [node, ir.node("Neg", [node.outputs[0]])]


def test_a_slot_that_only_transpose_nodes_read_is_transposed():
    model = pretranspose(slots_model(partial(transposed, perm=[1, 0]), transposed))
    value = model.graph.initializers["w"]
    assert [node.op_type for node in model.graph] == ["Neg", "Neg"]
    assert slot_of(value) == Slot("layer.weight", perm=(1, 0))
    assert tuple(value.shape) == (3, 2)
    bind_weights(model, {"layer.weight": WEIGHT}.__getitem__)
    assert np.array_equal(value.const_value.numpy(), WEIGHT.T.numpy())


def test_a_slot_that_another_node_reads_is_not_transposed():
    model = pretranspose(slots_model(transposed, lambda value: [ir.node("Neg", [value])]))
    assert [node.op_type for node in model.graph] == ["Transpose", "Neg", "Neg"]
    assert slot_of(model.graph.initializers["w"]) == Slot("layer.weight")


def test_equal_slots_are_merged():
    values = [ir.Value(name=name, shape=ir.Shape([2, 3])) for name in "abc"]
    for value, slot in zip(values, (Slot("w"), Slot("w"), Slot("w", perm=(1, 0))), strict=True):
        value.meta[SLOT] = slot
    graph = merge_slots(model_of([ir.node("Sum", values)], values)).graph
    assert [value.name for value in graph[0].inputs] == ["a", "a", "c"]
    assert set(graph.initializers) == {"a", "c"}
