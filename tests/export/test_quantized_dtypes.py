"""Files of each quantized dtype: their check passes, refuses wrong scales, and covers the weights of experts."""

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import shrunk
import tiny
from refusals import refusal
from stock_quantizers import initializers

import onnxfn
from onnxfn.check.variants.measures import cosine_of
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.weights import quantized

TASK = "text-generation-with-past"
DOWN = "model.layers.1.mlp.down_proj.weight"


def halve_scales(monkeypatch, name):
    """Makes the scales of one weight half as large while they are written."""
    correct = quantized._quantized_parts

    def halved(weight):
        for part in correct(weight):
            yield {**part, "scales": part["scales"] / 2} if name in weight.name else part

    monkeypatch.setattr(quantized, "_quantized_parts", halved)


@pytest.mark.parametrize("dtype", ["q4", "q8", "q4f16", "bnb4"])
def test_halved_scales_of_one_layer_leave_no_file(dtype, wide_llama, tmp_path, monkeypatch):
    spec = onnxfn.with_dtypes(onnxfn.spec_for(wide_llama, TASK), float=dtype)
    report = onnxfn.export(spec, wide_llama, tmp_path / "correct").report
    assert report.passed
    assert {each.floor for each in report.measurements if each.measure == "kl"} == {0.02 if dtype == "q8" else 0.5}
    halve_scales(monkeypatch, DOWN)
    message = refusal(onnxfn.CheckFailed, onnxfn.export, spec, wide_llama, tmp_path / "wrong")
    assert f"elements of {DOWN} in the file are more than a step away from the model's, first in row 0" in message
    assert not (tmp_path / "wrong").exists()


def test_products_of_a_float16_graph_read_scales_of_float16(wide_llama, tmp_path):
    """A float32 graph casts them first."""
    onnxfn.export(onnxfn.spec_for(wide_llama, TASK), wide_llama, tmp_path / "out", dtypes=("q4", "q4f16"), check=False)
    read, stored = {}, {}
    for suffix in ("_q4", "_q4f16"):
        graph = onnx.load(tmp_path / "out" / f"model{suffix}.onnx").graph
        stored[suffix] = initializers(tmp_path / "out" / f"model{suffix}.onnx")
        casts = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
        scales = {node.input[2] for node in graph.node if node.op_type == "MatMulNBits"}
        assert (scales <= casts.keys()) is (suffix == "_q4")
        read[suffix] = {casts.get(name, name) for name in scales}
    assert len(read["_q4f16"]) == 15
    assert read["_q4"] == read["_q4f16"]
    for name in read["_q4f16"]:
        scales = stored["_q4f16"][name]
        assert scales.dtype == np.float16
        np.testing.assert_allclose(scales, stored["_q4"][name], rtol=2**-9)


def test_products_at_level_4_are_right_without_optimizations(wide_llama, tmp_path):
    """Without them the Cast of scales in float16 is not computed before the kernel packs the codes."""
    spec = onnxfn.spec_for(wide_llama, TASK)
    exported = onnxfn.export(spec, wide_llama, tmp_path / "out", dtypes=("q8",), check=False)
    feeds = dummies(exported.plan.parts[0].spec, {})
    logits = []
    for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        session = ort.InferenceSession(exported.files[0], options)
        logits.append(session.run(["logits"], feeds)[0])
    assert cosine_of(*logits) > 0.99


EXPERTS = {
    "mixtral": r"mlp\.experts\.(gate_up|down)_proj$",
    "qwen3_moe": r"mlp\.experts\.(gate_up|down)_proj$",
    "granitemoe": r"moe\.experts\.(gate_up|down)_proj$",
    "dbrx": r"experts\.mlp\.[wv][12]$",
    "switch_transformers": r"experts\.expert_",
}
"""The weights of experts: with an axis for the experts, one after the other in a matrix, or modules of their own."""


def model_with_experts(model_type):
    """Random weights of granitemoe as large as those of the other models choose other experts in 4 bits."""
    if model_type == "dbrx":
        return shrunk.model(model_type, "DbrxForCausalLM")
    if model_type == "switch_transformers":
        return tiny.model(model_type, "AutoModelForSeq2SeqLM")
    smaller = {"initializer_range": 0.1} if model_type == "granitemoe" else {}
    return tiny.model(model_type, "AutoModelForCausalLM", **smaller)


@pytest.mark.parametrize("dtype", ["q4", "q8"])
@pytest.mark.parametrize("model_type", EXPERTS)
def test_the_weights_of_experts_are_quantized_and_proven(model_type, dtype, tmp_path, monkeypatch):
    model = model_with_experts(model_type)
    task = "text2text-generation-with-past" if model.config.is_encoder_decoder else TASK
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model, task), float=dtype)
    exported = onnxfn.export(spec, model, tmp_path / "correct")
    assert exported.report.passed
    assert all(each.weight.endswith("relative_attention_bias.weight") for each in exported.not_quantized)
    stored = {name for file in (tmp_path / "correct").glob("*.onnx") for name in initializers(file)}
    experts = [name for name, _ in model.named_parameters() if re.search(EXPERTS[model_type], name)]
    assert experts
    assert {f"{name}.codes" for name in experts} <= stored
    assert stored.isdisjoint(experts)
    halve_scales(monkeypatch, experts[-1])
    message = refusal(onnxfn.CheckFailed, onnxfn.export, spec, model, tmp_path / "wrong")
    assert f"elements of {experts[-1]} in the file are more than a step away" in message
