"""From opset 27 on, hybrids have one operator for each linear attention and each convolution with a state."""

from collections import Counter

import every_head
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from graph_edits import nodes

from onnxfn import export, spec_for, with_opset

COUNTS = {
    "falcon_h1": {"CausalConvWithState", "LinearAttention"},
    "mamba2": {"CausalConvWithState", "LinearAttention"},
    "minimax": {"LinearAttention", "MoE"},
    "qwen3_next": {"CausalConvWithState", "LinearAttention", "MoE"},
}
"""A model type -> its operators that ONNX has since opset 27, and that of its experts."""

TASK = "text-generation-with-past"


@pytest.mark.parametrize("name", COUNTS)
def test_a_hybrid_has_operators_in_place_of_scans_and_their_definitions_compute_the_same(name, tmp_path):
    model = every_head.tiny_model(name, TASK)
    assert export(with_opset(spec_for(name, TASK), 27), model, tmp_path / "out").report.passed
    path = tmp_path / "out" / "model.onnx"
    proto = onnx.load(path)
    counts = Counter(node.op_type for node in nodes(proto))
    assert "Scan" not in counts
    assert counts.keys() & {"Attention", "CausalConvWithState", "LinearAttention", "MoE"} == COUNTS[name]
    assert {function.name for function in proto.functions} == COUNTS[name]
    feeds = {each.name: _values(each) for each in onnxruntime.InferenceSession(path).get_inputs()}
    with_kernels = onnxruntime.InferenceSession(path).run(None, feeds)
    # ONNX Runtime has no kernel for an operator of this domain: it runs the definition.
    for each in (*nodes(proto, *COUNTS[name]), *proto.functions):
        each.domain = "of.nobody"
    proto.opset_import.append(onnx.helper.make_opsetid("of.nobody", 1))
    defined = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    for one, other in zip(with_kernels, defined, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _values(port):
    """Ones for integers, noise for a cache: a batch of 2, with 3 new tokens after 4."""
    sizes = {"batch_size": 2, "sequence_length": 3, "past_sequence_length": 4}
    shape = [size if isinstance(size, int) else sizes.get(size, 7) for size in port.shape]
    noise = np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)
    return np.ones(shape, np.int64) if "int" in port.type else noise


@pytest.mark.parametrize("opset", [18, 27])
@pytest.mark.parametrize("name", ["falcon_h1", "minimax", "qwen3_next"])
def test_the_logits_of_a_prompt_and_of_the_token_after_it_equal_those_of_pytorch_at_any_length(name, opset, tmp_path):
    model = every_head.tiny_model(name, TASK)
    export(with_opset(spec_for(name, TASK), opset), model, tmp_path / "out", check=False)
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    for length in (1, 63, 64, 65, 200):  # PyTorch has chunks of 64
        ids = torch.randint(3, 60, (2, length + 1), generator=torch.Generator().manual_seed(length))
        past, cache = {}, None
        for start, end in ((0, length), (length, length + 1)):
            new = ids[:, start:end]
            with torch.no_grad():
                expected = model(input_ids=new, past_key_values=cache, use_cache=True)
            cache = expected.past_key_values
            logits, past = _run(session, new.numpy(), start, past)
            np.testing.assert_allclose(logits, expected.logits.numpy(), rtol=1e-3, atol=1e-4, err_msg=f"{start}:{end}")


def _run(session, ids, start, past):
    """The logits of new tokens after `start` others, and the past of the next ones; no past is one of zeros."""
    sizes = {"batch_size": 2, "sequence_length": ids.shape[1], "past_sequence_length": 0}
    given = {"input_ids": ids, "position_ids": np.tile(np.arange(start, start + ids.shape[1]), (2, 1))} | past
    for each in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size, start + ids.shape[1]) for size in each.shape]
        given.setdefault(each.name, np.full(shape, 1, np.int64) if "mask" in each.name else np.zeros(shape, np.float32))
    names = [each.name for each in session.get_outputs()]
    logits, *present = session.run(names, {each.name: given[each.name] for each in session.get_inputs()})
    pasts = [name.replace("present.", "past_key_values.").replace("present_", "past_") for name in names[1:]]
    return logits, dict(zip(pasts, present, strict=True))
