"""From opset 27 on, hybrids have one operator for each linear attention and each convolution with a state."""

from collections import Counter

import every_head
import numpy as np
import onnx
import onnxruntime
import pytest

from onnxfn import export, spec_for, with_opset

COUNTS = {
    "falcon_h1": {"CausalConvWithState", "LinearAttention"},
    "mamba2": {"CausalConvWithState", "LinearAttention"},
    "minimax": {"LinearAttention"},
    "qwen3_next": {"CausalConvWithState", "LinearAttention"},
}
"""A model type -> its operators that ONNX has since opset 27."""

TASK = "text-generation-with-past"


@pytest.mark.parametrize("name", COUNTS)
def test_a_hybrid_has_operators_in_place_of_scans_and_their_definitions_compute_the_same(name, tmp_path):
    model = every_head.tiny_model(name, TASK)
    exported = export(with_opset(spec_for(name, TASK), 27), model, tmp_path / "out")
    assert exported.report.passed
    path = tmp_path / "out" / "model.onnx"
    proto = onnx.load(path)
    counts = Counter(node.op_type for node in proto.graph.node)
    assert "Scan" not in counts
    assert counts.keys() & {"CausalConvWithState", "LinearAttention"} == COUNTS[name]
    assert {function.name for function in proto.functions} == COUNTS[name]
    feeds = {each.name: _values(each) for each in onnxruntime.InferenceSession(path).get_inputs()}
    with_kernels = onnxruntime.InferenceSession(path).run(None, feeds)
    # ONNX Runtime has no kernel for an operator of this domain: it runs the definition.
    for each in (*(node for node in proto.graph.node if node.op_type in COUNTS[name]), *proto.functions):
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
