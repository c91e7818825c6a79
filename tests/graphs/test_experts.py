"""From opset 27 on, experts are one operator: MoE in float32, QMoE in blocks."""

from collections import Counter
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from onnxfn import export, quantize, spec_for, with_opset
from onnxfn.check.variants.float_form import body_form
from onnxfn.edits import with_dtypes

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "vocab_size": 99,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "initializer_range": 0.1,
}
MODELS = {
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, intermediate_size=96, num_local_experts=8)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, head_dim=16, moe_intermediate_size=32, num_experts=8)
    ),
}
"""Models whose weights of experts are multiples of a block; the weights of Qwen3's experts do not add up to one."""

TABLES = ("MatMul", "Gather")
STORED = {
    "float32": (lambda spec: spec, "MoE", 1.0),
    "q4": (partial(with_dtypes, float="q4"), "QMoE", 1.0),
    "q8": (
        partial(with_dtypes, float="q8"),
        "QMoE",
        0.8,
    ),  # the kernel rounds activations, so some choose other experts
    "exact 8 bits": (partial(quantize, bits=8, read_by=TABLES), "GatherBlockQuantized", 1.0),
    "zero points": (partial(quantize, bits=4, symmetric=False, read_by=TABLES), "GatherBlockQuantized", 1.0),
}
"""A way to store weights -> its edit, the operator that reads those of experts, the share of equal logits of bodies."""


@pytest.mark.parametrize(("name", "stored"), [*(("mixtral", each) for each in STORED), ("qwen3_moe", "q4")])
def test_experts_are_one_operator_whose_body_computes_the_same(name, stored, tmp_path, monkeypatch):
    torch.manual_seed(0)
    model, (edit, operator, share) = MODELS[name]().eval(), STORED[stored]
    spec = edit(with_opset(spec_for(name, "text-generation-with-past"), 27))
    assert export(spec, model, tmp_path / "out").report.passed
    path = next((tmp_path / "out").glob("*.onnx"))
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert counts[operator] >= 2
    assert counts["MoE"] + counts["QMoE"] in (0, 2)
    monkeypatch.chdir(path.parent)  # where the weights of the body form are
    session = onnxruntime.InferenceSession(path)
    ids = np.array([[3, 5, 7, 9], [2, 4, 6, 8]])
    feeds = {each.name: np.zeros((2, 2, 0, 16), np.float32) for each in session.get_inputs()}
    places = np.arange(4)[None].repeat(2, 0)
    new = {"input_ids": ids, "attention_mask": np.ones((2, 4), np.int64), "position_ids": places}
    feeds |= {key: value for key, value in new.items() if key in feeds}
    sessions = (session, onnxruntime.InferenceSession(body_form(path)))
    by_kernel, by_body = (each.run(["logits"], feeds)[0] for each in sessions)
    distance = 1e-4 if share == 1.0 else 0.1
    assert np.isclose(by_kernel, by_body, rtol=1e-3, atol=distance).mean() >= share
    if stored == "float32":
        expected = model(torch.from_numpy(ids)).logits.detach().numpy()
        np.testing.assert_allclose(by_kernel, expected, rtol=1e-4, atol=1e-4)
        assert (by_kernel.argmax(-1) == expected.argmax(-1)).all()
