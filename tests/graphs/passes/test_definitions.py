"""Bodies of operators of com.microsoft: ONNX Runtime takes its kernel, every other program the body."""

import numpy as np
import onnx
import onnx.inliner
import onnx_ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from quantized_graphs import GRAPHS, slotted
from small_graphs import noise

from onnxfn.check.variants.float_form import body_form
from onnxfn.check.variants.quantized_matrices import NF4
from onnxfn.graphs.nodes.slots import bind_weights
from onnxfn.graphs.passes.definitions import BODIES, define_operators
from onnxfn.graphs.quantization.quantize import quantize_weights
from onnxfn.graphs.quantization.quantized_slots import bind_quantized_weights
from onnxfn.specs.quantization import WeightRule

RULES = {
    "4 bits": WeightRule(),
    "4 bits with zero points": WeightRule(symmetric=False, block_size=16),
    "8 bits": WeightRule(bits=8),
    "8 bits with zero points": WeightRule(bits=8, symmetric=False),
    "2 bits with zero points": WeightRule(bits=2, symmetric=False),
    "nf4": WeightRule(kind="nf4", block_size=16),
}
CASES = [(graph, rule) for graph in ("product", "Gemm", "branches", "experts") for rule in RULES]
CASES.remove(("experts", "nf4"))  # no operator looks up rows of these codes


@pytest.mark.parametrize(("graph", "rule"), CASES)
def test_a_body_computes_what_the_kernel_does(graph, rule, tmp_path):
    model, feeds = slotted(graph, opset=18)
    weights = {name: noise(*shape, seed=3) for name, shape in GRAPHS[graph][2].items()}
    model, left = quantize_weights(model, (RULES[rule],))
    assert left == ()
    bind_quantized_weights(bind_weights(model, weights.__getitem__), weights.__getitem__)
    assert_same(onnx_ir.to_proto(define_operators(model)), feeds, tmp_path, at_once=graph != "branches")


def assert_same(proto, feeds, folder, *, at_once=True):
    """A file gives the same by kernels, by bodies and in onnx.reference; ONNX Runtime takes its kernels."""
    onnx.checker.check_model(proto)
    file = folder / "model.onnx"
    onnx.save(proto, file)
    by_kernels, run = ran(file.read_bytes(), feeds, folder)
    assert {each.name for each in proto.functions} <= run or not at_once
    by_bodies, run = ran(body_form(file), feeds, folder)
    assert {each.name for each in proto.functions}.isdisjoint(run)
    np.testing.assert_allclose(by_bodies, by_kernels, rtol=1e-5, atol=1e-4)
    inlined = onnx.inliner.inline_local_functions(proto)
    assert {node.domain for node in inlined.graph.node} == {""}
    overloaded = any(each.overload for each in proto.functions)  # onnx.reference does not know overloads
    np.testing.assert_allclose(
        ReferenceEvaluator(inlined if overloaded else proto).run(None, feeds)[0], by_kernels, rtol=1e-5, atol=1e-4
    )


def ran(content, feeds, folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    (output,) = onnxruntime.InferenceSession(content, options).run(None, feeds)
    return output, {node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node}


def test_nodes_with_other_inputs_call_an_overload(tmp_path):
    codes, random = onnx.numpy_helper.from_array, np.random.default_rng(0)
    arrays = {name: random.integers(0, 256, (64, 2, 16), np.uint8) for name in ("a", "b", "c")}
    tensors = [codes(array, name) for name, array in arrays.items()]
    tensors += [codes(random.random((64, 2), np.float32) / 64, "s"), codes(arrays["a"][:, 0, :1].copy(), "z")]
    text = (
        '<ir_version: 9, opset_import: ["": 21, "com.microsoft": 1]> g (float[n,64] x) => (float[n,64] y) {{'
        "p = com.microsoft.MatMulNBits <{0}> (x, a, s, z) q = com.microsoft.MatMulNBits <{0}> (p, b, s)"
        "y = com.microsoft.MatMulNBits <{0}> (q, c, s) }}"
    )
    proto = onnx.parser.parse_model(text.format("K = 64, N = 64, bits = 4, block_size = 32, accuracy_level = 1"))
    proto.graph.initializer.extend(tensors)
    proto = onnx_ir.to_proto(define_operators(onnx_ir.from_proto(proto)))
    assert [node.overload for node in proto.graph.node] == ["", "inputs_2", "inputs_2"]
    assert proto.ir_version == 10  # the first version with overloads
    assert_same(proto, {"x": noise(3, 64, seed=2)}, tmp_path)


def test_an_operator_without_a_fitting_body_stays_alone():
    text = (
        '<ir_version: 9, opset_import: ["": 21, "com.microsoft": 1]> g (float[n,64] x) => (float[n,64] y) '
        "{ y = com.microsoft.FastGelu (x) }"
    )
    model = define_operators(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    assert (len(model.functions), model.ir_version) == (0, 9)


def test_the_levels_of_nf4_are_those_of_the_check():
    numbers = BODIES.read_text("utf-8").partition("value_floats = [")[2].partition("]")[0]
    assert tuple(map(float, numbers.split(","))) == NF4
