"""From opset 27 on, experts are one operator: MoE in float32, QMoE in blocks."""

from collections import Counter

import every_head
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from onnxfn import export, spec_for, with_opset
from onnxfn.check.variants.float_form import body_form
from onnxfn.edits import with_dtypes

TASK = "text-generation-with-past"
LAYOUTS = {"gpt_oss": "transposed, in turn, with biases", "mixtral": "halves", "minimax_m3_vl_text": "halves, limited"}
"""A model type -> how its experts are stored."""


@pytest.mark.parametrize("dtype", ["float32", "q4", "q8"])
@pytest.mark.parametrize("name", ["gpt_oss", "mixtral"])
def test_experts_are_one_operator_whose_body_computes_the_same(name, dtype, tmp_path):
    model = every_head.tiny_model(name, TASK)
    exported = export(with_dtypes(with_opset(spec_for(name, TASK), 27), float=dtype), model, tmp_path / "out")
    assert exported.report.passed
    path = next((tmp_path / "out").glob("*.onnx"))
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert counts["MoE" if dtype == "float32" else "QMoE"] == model.config.num_hidden_layers
    feeds = {each.name: values(each) for each in onnxruntime.InferenceSession(path).get_inputs()}
    by_kernel, by_body = (onnxruntime.InferenceSession(each).run(None, feeds) for each in (path, body_form(path)))
    for one, other in zip(by_kernel, by_body, strict=True):
        # kernels of 8 bits round activations to 8 bits
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=0.1 if dtype == "q8" else 1e-4)
    if dtype == "float32":
        ids = torch.tensor([[3, 5, 7, 9]])
        expected = model(ids).logits.detach().numpy()
        empty = {each: value[:1, :, :0] for each, value in feeds.items() if each.startswith("past")}
        new = {"input_ids": ids.numpy(), "attention_mask": np.ones((1, 4), np.int64), "position_ids": np.arange(4)[None]}
        (logits,) = onnxruntime.InferenceSession(path).run(["logits"], empty | {k: v for k, v in new.items() if k in feeds})
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
        assert (logits.argmax(-1) == expected.argmax(-1)).all()


def values(port):
    """Ones for integers, noise for a cache: a batch of 2, with 3 new tokens after 4."""
    sizes = {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 4}
    shape = [size if isinstance(size, int) else sizes.get(size, 7) for size in port.shape]
    noise = np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    return np.ones(shape, np.int64) if "int" in port.type else noise
