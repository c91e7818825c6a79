"""Matrices of one module that multiply the same tensor are packed into one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
import tiny
import torch
from agreement import assert_agreement
from onnx import numpy_helper, parser
from refusals import refusal

import onnxfn
from onnxfn.graphs.passes.packing import pack_matmuls
from onnxfn.graphs.passes.slots import SLOT, Slot, bind_weights
from onnxfn.specs.edits.tensors import with_opset
from onnxfn.specs.errors import CaptureFailed
from onnxfn.weights.chunks import chunks, memory_key

PAST = "text-generation-with-past"
LLAMA = with_opset(onnxfn.spec_for("llama", PAST), 23)


def matmul_count(file):
    return Counter(node.op_type for node in onnx.load(file, load_external_data=False).graph.node)["MatMul"]


def weights(file):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(file).graph.initializer}


def bytes_in_all(tensors):
    return sum(tensor.nbytes for tensor in tensors.values())


def test_query_key_and_value_are_one_product_with_the_option(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM")
    for name, fuse in (("packed", "onnxruntime"), ("standard", "standard")):
        build = onnxfn.BuildOptions(fuse=fuse)
        assert_agreement(onnxfn.export(LLAMA, model, tmp_path / name, build=build), tmp_path / name)
    assert matmul_count(tmp_path / "packed/model.onnx") == 2 * 4 + 1
    assert matmul_count(tmp_path / "standard/model.onnx") == 2 * 7 + 1
    packed, module = weights(tmp_path / "packed/model.onnx"), model.model.layers[1].self_attn
    name = "+".join(f"model.layers.1.self_attn.{letter}_proj.weight" for letter in "qkv")
    matrix = torch.cat([module.q_proj.weight, module.k_proj.weight, module.v_proj.weight]).T
    assert np.array_equal(packed[name], matrix.detach().numpy())
    standard = weights(tmp_path / "standard/model.onnx")
    assert bytes_in_all(packed) == pytest.approx(bytes_in_all(standard), abs=256)


def test_weights_that_are_linked_to_a_checkpoint_are_not_packed(tmp_path):
    from safetensors.torch import save_file

    model = tiny.model("llama", "AutoModelForCausalLM", tie_word_embeddings=False)
    (tmp_path / "checkpoint").mkdir()
    save_file(dict(model.state_dict()), tmp_path / "checkpoint/model.safetensors")
    result = onnxfn.export(
        LLAMA,
        model,
        tmp_path / "out",
        checkpoint=tmp_path / "checkpoint",
        build=onnxfn.BuildOptions(fuse="onnxruntime"),
        write=onnxfn.WriteOptions(weight_storage="link"),
    )
    assert result.report.passed
    assert matmul_count(tmp_path / "out/model.onnx") == 2 * 7 + 1


# Graphs written by hand

MATRICES = {"a.q.weight": 3, "a.k.weight": 2, "a.v.weight": 2, "b.k.weight": 2, "a.twice.weight": 4}
"""`{parameter: columns}` of matrices with 4 rows."""

GRAPH = """<ir_version: 10, opset_import: ["": 23]>
multiplies (float[B, 4] x, float[B, 4] y, float[4, 3] q, float[4, 2] k, float[4, 2] v, float[4, 2] other, float[4, 4] w)
=> (float[B, 3] to_q, float[B, 2] to_k, float[B, 2] to_v, float[B, 2] to_other, float[B, 4] first, float[B, 4] second)
{
    to_q = MatMul (x, q)
    to_k = MatMul (x, k)
    to_v = MatMul (y, v)
    to_other = MatMul (x, other)
    first = MatMul (x, w)
    second = MatMul (y, w)
}"""


def run(model, feeds):
    content = onnx_ir.serde.serialize_model(model).SerializeToString()
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feeds)


def graph_and_parameters():
    """The graph, whose matrices are slots of transposed parameters, and the parameters."""
    model = onnx_ir.serde.deserialize_model(parser.parse_model(GRAPH))
    parameters = {name: torch.arange(4.0 * columns).reshape(columns, 4).sin() for name, columns in MATRICES.items()}
    for value, name in zip(list(model.graph.inputs)[2:], MATRICES, strict=True):
        value.meta[SLOT] = Slot(name, (1, 0))
        model.graph.inputs.remove(value)
        model.graph.initializers.add(value)
    return model, parameters


def test_only_matrices_of_one_module_that_multiply_one_tensor_are_packed():
    model, _ = graph_and_parameters()
    graph = pack_matmuls(model).graph
    assert [node.op_type for node in graph] == ["MatMul", "Split", *["MatMul"] * 4]
    assert set(graph.initializers) == {"q+k", "v", "other", "w", "fused.3x2"}
    assert graph.initializers["q+k"].meta[SLOT] == Slot("a.q.weight", (1, 0), ("a.k.weight",))
    assert [value.name for value in graph.outputs] == ["to_q", "to_k", "to_v", "to_other", "first", "second"]


@pytest.mark.parametrize("known_shapes", [True, False])
def test_a_packed_graph_computes_the_same(known_shapes):
    feeds = {name: np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32) for seed, name in enumerate("xy")}
    (plain, parameters), (model, _) = graph_and_parameters(), graph_and_parameters()
    if not known_shapes:
        for value in model.graph.outputs:
            value.shape = None
    expected = run(bind_weights(plain, parameters.__getitem__), feeds)
    outputs = run(bind_weights(pack_matmuls(model), parameters.__getitem__), feeds)
    for output, expected_output in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, expected_output, rtol=1e-6, atol=1e-6)


def bound_weight(model, tensors, name="q+k"):
    """The tensor of one initializer of the packed graph, after the weights are bound."""
    return bind_weights(pack_matmuls(model), tensors.__getitem__).graph.initializers[name].const_value


def test_the_same_matrices_packed_in_two_graphs_have_the_same_memory():
    (first, parameters), (second, _), (third, _) = (graph_and_parameters() for _ in range(3))
    key = memory_key(bound_weight(first, parameters))
    assert key == memory_key(bound_weight(second, parameters))
    assert key != memory_key(bound_weight(third, parameters, "v"))


def test_arrays_of_numpy_are_packed_as_tensors_of_torch():
    (first, parameters), (second, _) = graph_and_parameters(), graph_and_parameters()
    of_torch = bound_weight(first, parameters)
    of_numpy = bound_weight(second, {name: tensor.numpy() for name, tensor in parameters.items()})
    columns = np.concatenate([parameters["a.q.weight"], parameters["a.k.weight"]]).T.tobytes()
    assert of_torch.tobytes() == of_numpy.tobytes() == columns
    assert b"".join(map(bytes, chunks(of_torch))) == b"".join(map(bytes, chunks(of_numpy))) == columns


def test_a_parameter_of_another_shape_is_refused():
    model, parameters = graph_and_parameters()
    tensors = {**parameters, "a.k.weight": torch.ones(3, 4)}
    message = refusal(CaptureFailed, bind_weights, pack_matmuls(model), tensors.__getitem__)
    assert message == "parameter a.q.weight + a.k.weight is FLOAT[4, 6], but the graph reads FLOAT[4, 5]"
