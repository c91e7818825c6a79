"""Exports are fused: expected operators are in the graph, and the files compute what PyTorch computes."""

from collections import Counter

import onnx
import pytest
import tiny
import torch
from agreement import assert_agreement

import onnxfn
from onnxfn.architectures import decoders
from onnxfn.specs.edits.tensors import with_opset
from onnxfn.specs.tasks.tasks import task_names

PAST = "text-generation-with-past"

# The operators that are expected in each graph at opset 23, and are in it.
DECODERS = {
    "llama": {"Attention": 2, "RMSNormalization": 5, "RotaryEmbedding": 4},
    "gemma2": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4, "Gelu": 2},  # softcap
    "qwen3": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4},  # norms of queries and keys
    "gpt_neox": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 5},  # a part is rotated
    "phi": {"Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 3},
    "gptj": {"Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 3},  # pairs are rotated
    "deepseek_v3": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4},  # pairs become halves
    "cohere": {"Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 3},  # a norm in Python
}
ENCODERS = {
    "bert": {"Attention": 2, "Gelu": 2, "LayerNormalization": 5},
    "modernbert": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 5},
}

# All decoders but InternLM2: transformers 5 has no model of it.
GENERATORS = [name for name, row in decoders.ROWS.items() if PAST in task_names(row) and name != "internlm2"]


def nodes(folder):
    return list(onnx.load(folder / "model.onnx").graph.node)


def operator_counts(folder):
    """`{(domain, operator): number of nodes}` of a file."""
    return Counter((node.domain, node.op_type) for node in nodes(folder))


def exported(model_type, task, folder, **sizes):
    """The result of an export at opset 23, which agrees with PyTorch."""
    spec, model = tiny.spec_and_model(model_type, task, **sizes)
    return assert_agreement(onnxfn.export(with_opset(spec, 23), model, folder))


def fused(result, part="model"):
    """`{operator: number in the graph}` of a part."""
    return {fusion.operator: fusion.actual for fusion in dict(result.fusions)[part] if fusion.actual}


@pytest.mark.parametrize("model_type", DECODERS)
def test_a_decoder_is_fused_and_agrees(model_type, tmp_path):
    assert fused(exported(model_type, PAST, tmp_path)) == DECODERS[model_type]
    counts = operator_counts(tmp_path)
    assert {domain for domain, _ in counts} == {""}
    assert not counts["", "Softmax"]


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", GENERATORS)
def test_every_decoder_agrees_when_it_is_fused(model_type, tmp_path):
    exported(model_type, PAST, tmp_path)


def test_attention_reads_and_writes_the_cache_itself(tmp_path):
    exported("llama", PAST, tmp_path)
    first, second = (node for node in nodes(tmp_path) if node.op_type == "Attention")
    assert list(first.input[4:]) == ["past_key_values.0.key", "past_key_values.0.value"]
    assert list(second.output[1:]) == ["present.1.key", "present.1.value"]
    past_readers = {
        node.op_type
        for node in nodes(tmp_path)
        for name in node.input
        if name.startswith("past_key_values") and node.op_type != "Shape"
    }
    assert not {"Expand", "Concat", "Transpose"} & past_readers
    assert len({node.input[3] for node in (first, second)}) == 1  # both layers read one mask
    before = [node.op_type for node in nodes(tmp_path)[: nodes(tmp_path).index(first)]]
    assert not {"GatherND", "Expand"} & set(before)  # the mask needs no more nodes


@pytest.mark.parametrize("model_type", ENCODERS)
def test_an_encoder_is_fused_and_agrees(model_type, tmp_path):
    assert fused(exported(model_type, "feature-extraction", tmp_path)) == ENCODERS[model_type]


def test_an_encoder_decoder_is_fused_and_agrees(tmp_path):
    result = exported("t5", "text2text-generation-with-past", tmp_path)
    assert fused(result, "encoder_model") == {"Attention": 2, "RMSNormalization": 5}
    assert fused(result, "decoder_model_merged") == {"Attention": 4, "RMSNormalization": 7}


def test_layers_that_are_not_traced_have_the_operators_of_those_that_are(tmp_path):
    result = exported("llama", PAST, tmp_path, num_hidden_layers=7)
    assert "7 layers" in str(result.repeats)
    assert fused(result) == {"Attention": 7, "RMSNormalization": 15, "RotaryEmbedding": 14}


def test_an_operator_that_the_opset_lacks_is_not_used(tmp_path):
    result = onnxfn.export(*tiny.spec_and_model("llama", PAST), tmp_path)
    assert result.opset == 18
    assert fused(result) == {}
    used = {op_type for _, op_type in operator_counts(tmp_path)}
    assert not {"Attention", "RMSNormalization", "RotaryEmbedding"} & used


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True, "is_causal": True, "scale": 0.2}])
def test_attention_of_torch_is_translated_with_all_options(options, opset, tmp_path):
    module, heads = torch.nn.Module(), 2 if "enable_gqa" in options else 4  # of the keys; the queries have 4
    module.inner = torch.nn.Linear(8, 4 * heads)

    def forward(q, k):
        query, key = (tensor.unflatten(-1, (-1, 4)).transpose(1, 2) for tensor in (q, module.inner(k)))
        return {"y": torch.nn.functional.scaled_dot_product_attention(query, key, key * 2, **options)}

    module.forward = forward
    spec = onnxfn.compose(
        onnxfn.takes("q", "batch_size queries 16", "numbers", kind="float"),
        onnxfn.takes("k", "batch_size keys 8", "numbers", kind="float"),
        onnxfn.generates("numbers", "uniform"),
        onnxfn.sized(batch_size=2, queries=6, keys=9),
        onnxfn.gives("y", "batch_size 4 queries 4"),
    )
    result = onnxfn.export(with_opset(spec, opset), module.eval(), tmp_path / "model.onnx")
    assert result.report.passed
    assert fused(result) == ({"Attention": 1} if opset == 23 else {})
