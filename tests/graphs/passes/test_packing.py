"""Packing: what a module multiplies by several matrices is one product, and its bytes are theirs beside each other."""

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

import onnxfn
from onnxfn.graphs.passes.packing import pack_matmuls
from onnxfn.graphs.passes.slots import SLOT, Slot, bind_weights
from onnxfn.specs.edits.tensors import with_opset
from onnxfn.specs.errors import CaptureFailed
from onnxfn.weights.chunks import chunks, memory_key

PAST = "text-generation-with-past"
LLAMA = with_opset(onnxfn.spec_for("llama", PAST), 23)


def products(file):
    return Counter(node.op_type for node in onnx.load(file, load_external_data=False).graph.node)["MatMul"]


def stored(file):
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(file).graph.initializer}


def test_query_key_and_value_are_one_product_for_who_asks(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM")
    for name, options in (("packed", {"fuse": "onnxruntime"}), ("standard", {})):
        assert_agreement(onnxfn.export(LLAMA, model, tmp_path / name, **options), tmp_path / name)
    assert products(tmp_path / "packed/model.onnx") == 2 * 4 + 1
    assert products(tmp_path / "standard/model.onnx") == 2 * 7 + 1
    there, module = stored(tmp_path / "packed/model.onnx"), model.model.layers[1].self_attn
    told = "+".join(f"model.layers.1.self_attn.{one}_proj.weight" for one in "qkv")
    whole = torch.cat([module.q_proj.weight, module.k_proj.weight, module.v_proj.weight]).T
    assert np.array_equal(there[told], whole.detach().numpy())
    assert sum(one.nbytes for one in there.values()) == pytest.approx(
        sum(one.nbytes for one in stored(tmp_path / "standard/model.onnx").values()), abs=256
    )


def test_what_stays_in_a_checkpoint_stands_beside_nothing(tmp_path):
    from safetensors.torch import save_file

    model = tiny.model("llama", "AutoModelForCausalLM", tie_word_embeddings=False)
    (tmp_path / "checkpoint").mkdir()
    save_file(dict(model.state_dict()), tmp_path / "checkpoint/model.safetensors")
    options = {"fuse": "onnxruntime", "weights": "link", "beside": tmp_path / "checkpoint"}
    assert onnxfn.export(LLAMA, model, tmp_path / "out", **options).report.passed
    assert products(tmp_path / "out/model.onnx") == 2 * 7 + 1


# Graphs written by hand

MATRICES = {"a.q.weight": 3, "a.k.weight": 2, "a.v.weight": 2, "b.k.weight": 2, "a.twice.weight": 4}
"""A matrix -> its columns, of 4 rows each."""

GRAPH = """<ir_version: 10, opset_import: ["": 23]>
multiplies (float[B, 4] x, float[B, 4] y, float[4, 3] q, float[4, 2] k, float[4, 2] v, float[4, 2] other, float[4, 4] w)
=> (float[B, 3] to_q, float[B, 2] to_k, float[B, 2] to_v, float[B, 2] to_other, float[B, 4] one, float[B, 4] two)
{
    to_q = MatMul (x, q)
    to_k = MatMul (x, k)
    to_v = MatMul (y, v)
    to_other = MatMul (x, other)
    one = MatMul (x, w)
    two = MatMul (y, w)
}"""


def run(model, feeds):
    made = onnx_ir.serde.serialize_model(model).SerializeToString()
    return onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"]).run(None, feeds)


def made():
    """The graph, its matrices slots of parameters that are turned, and the parameters."""
    model = onnx_ir.serde.deserialize_model(parser.parse_model(GRAPH))
    raw = {name: torch.arange(4.0 * columns).reshape(columns, 4).sin() for name, columns in MATRICES.items()}
    for value, name in zip(list(model.graph.inputs)[2:], MATRICES, strict=True):
        value.meta[SLOT] = Slot(name, (1, 0))
        model.graph.inputs.remove(value)
        model.graph.initializers.add(value)
    return model, raw


def test_only_matrices_of_one_module_that_multiply_one_value_are_one():
    model, _ = made()
    there = pack_matmuls(model).graph
    assert [node.op_type for node in there] == ["MatMul", "Split", *["MatMul"] * 4]
    assert set(there.initializers) == {"q+k", "v", "other", "w", "fused.3x2"}
    assert there.initializers["q+k"].meta[SLOT] == Slot("a.q.weight", (1, 0), ("a.k.weight",))
    assert [value.name for value in there.outputs] == ["to_q", "to_k", "to_v", "to_other", "one", "two"]


def test_the_graph_means_the_same():
    feeds = {name: np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32) for seed, name in enumerate("xy")}
    (apart, raw), (model, _) = made(), made()
    before, after = (run(bind_weights(one, raw.__getitem__), feeds) for one in (apart, pack_matmuls(model)))
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def bytes_of(model, tensors, name="q+k"):
    """What one weight of a graph is when it is bound."""
    return bind_weights(pack_matmuls(model), tensors.__getitem__).graph.initializers[name].const_value


def test_matrices_that_two_graphs_pack_alike_are_one_in_memory():
    (one, raw), (other, _), (third, _) = made(), made(), made()
    assert memory_key(bytes_of(one, raw)) == memory_key(bytes_of(other, raw)) != memory_key(bytes_of(third, raw, "v"))


def test_arrays_of_a_checkpoint_pack_as_its_parameters_do():
    (one, raw), (other, _) = made(), made()
    ours, theirs = bytes_of(one, raw), bytes_of(other, {name: tensor.numpy() for name, tensor in raw.items()})
    assert ours.tobytes() == theirs.tobytes() == np.concatenate([raw["a.q.weight"], raw["a.k.weight"]]).T.tobytes()
    assert b"".join(map(bytes, chunks(ours))) == b"".join(map(bytes, chunks(theirs))) == ours.tobytes()


def test_a_parameter_of_another_shape_is_refused():
    model, raw = made()
    with pytest.raises(CaptureFailed, match=r"a.q.weight \+ a.k.weight is FLOAT\[4, 6\] where .* FLOAT\[4, 5\]"):
        bind_weights(pack_matmuls(model), {**raw, "a.k.weight": torch.ones(3, 4)}.__getitem__)
