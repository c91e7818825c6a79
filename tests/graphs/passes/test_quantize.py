"""The pass that quantizes weights: the graph computes what it computes with the dequantized weights."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from attrs import evolve
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from quantized_graphs import GRAPHS, slotted
from small_graphs import graph_from_text, noise, operators, run_unoptimized

from onnxfn.graphs.nodes.slots import SLOT, Slot, bind_weights
from onnxfn.graphs.quantization.quantize import quantize_weights
from onnxfn.graphs.quantization.quantized_slots import bind_quantized_weights, quantized_sizes
from onnxfn.specs.quantization import WeightRule
from onnxfn.weights.onnxruntime_kernels import block_codes

FOUR, EIGHT = WeightRule(), WeightRule(bits=8)
INTEGERS = WeightRule("*", bits=8, kind="dynamic")


def tensors_of(name):
    return {weight: 0.1 * noise(*shape, seed=2) for weight, shape in GRAPHS[name][2].items()}


def bound(model, tensors):
    return bind_quantized_weights(bind_weights(model, tensors.__getitem__), tensors.__getitem__)


def error(name, rules, **keywords):
    """The root mean square error of the quantized graph, relative to its output; the graph itself."""
    tensors = tensors_of(name)
    model, feeds = slotted(name, **keywords)
    (expected,) = run_unoptimized(bound(slotted(name, **keywords)[0], tensors), **feeds)
    quantized = bound(quantize_weights(model, rules)[0], tensors)
    onnx.checker.check_model(onnx_ir.to_proto(quantized))
    (actual,) = run_unoptimized(quantized, **feeds)
    assert actual.shape == expected.shape
    return np.sqrt(np.mean((actual - expected) ** 2) / np.mean(expected**2)), quantized


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("rule", "low", "high"), [(FOUR, 0.02, 0.15), (evolve(FOUR, symmetric=False), 0.02, 0.12), (EIGHT, 1e-4, 0.01)]
)
def test_blocks_are_read_wherever_the_weight_was(name, rule, low, high):
    actual, model = error(name, [rule])
    assert low < actual < high
    assert quantized_sizes(model).keys() == {"w"}
    assert not {"MatMul", "Gemm", "GatherND", "Transpose"} & {*operators(model)}
    assert "w" not in model.graph.initializers


def test_a_tied_table_is_stored_once():
    _, model = error("tied", [FOUR])
    assert [*model.graph.initializers][:2] == ["w.codes", "w.scales"]
    assert operators(model).count("MatMulNBits") == 1


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", ["lookup", "tied"])
def test_rows_are_looked_up_by_operators_of_onnx(name, bits, symmetric):
    """The web build of ONNX Runtime has no GatherBlockQuantized for bytes. The rows are those that it would give."""
    rule = WeightRule(bits=bits, symmetric=symmetric)
    quantized = bound(quantize_weights(slotted(name)[0], [rule])[0], tensors_of(name))
    assert "GatherBlockQuantized" not in operators(quantized)
    table, feeds = tensors_of("lookup")["w"], slotted("lookup")[1]
    codes, scales, zero_points = block_codes(table, bits, rule.block_size, symmetric=symmetric)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    mask = (1 << bits) - 1
    numbers = ((codes[..., None] >> shifts) & mask).reshape(*scales.shape, rule.block_size).astype(np.float32)
    points = ((zero_points[..., None] >> shifts) & mask).reshape(len(table), -1)[:, : scales.shape[1], None]
    elements = (numbers - (1 << (bits - 1) if symmetric else points)) * scales.astype(np.float16)[..., None]
    if name == "lookup":
        (rows,) = run_unoptimized(quantized, **feeds)
        expected = elements.reshape(len(table), -1)[:, : table.shape[1]].astype(np.float32)
        np.testing.assert_allclose(rows, expected[feeds["ids"]], rtol=1e-6, atol=1e-7)


def test_experts_are_looked_up_by_one_operator():
    _, model = error("experts", [FOUR])
    assert operators(model).count("GatherBlockQuantized") == 1


@pytest.mark.parametrize("name", ["product", "transposed", "Gemm", "Gemm of a Conv1D", "branches"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_integers_multiply_quantized_activations(name, signed, per_channel):
    actual, model = error(name, [evolve(INTEGERS, signed=signed, per_channel=per_channel)])
    assert 1e-4 < actual < 0.05
    assert quantized_sizes(model).keys() == {"w"}


@pytest.mark.parametrize("name", ["product", "transposed", "Gemm", "Gemm of a Conv1D", "branches"])
def test_nf4_is_read_by_its_product(name):
    actual, _ = error(name, [WeightRule("*", kind="nf4", block_size=64)])
    assert 0.02 < actual < 0.15


def test_codes_and_scales_are_those_of_the_quantizer_of_onnx_runtime():
    tensors = tensors_of("product")
    stock = MatMulNBitsQuantizer(
        onnx_ir.to_proto(bound(slotted("product")[0], tensors)), bits=4, block_size=32, is_symmetric=True
    )
    stock.process()
    (node,) = stock.model.model.graph.node
    expected = {one.name: onnx.numpy_helper.to_array(one) for one in stock.model.model.graph.initializer}
    model = bound(quantize_weights(slotted("product")[0], [FOUR])[0], tensors)
    codes, scales = (model.graph.initializers[name].const_value.numpy() for name in ("w.codes", "w.scales"))
    np.testing.assert_array_equal(codes, expected[node.input[1]])
    np.testing.assert_array_equal(scales.reshape(-1), expected[node.input[2]].astype(np.float16).reshape(-1))


LEFT = (
    ("lookup", [evolve(INTEGERS)], "Gather reads it, and 'dynamic' has no operator for that"),
    ("tied", [INTEGERS], "Gather reads it, and 'dynamic' has no operator for that"),
    ("product", [WeightRule("w", block_size=1024)], "its codes and scales would not be smaller"),
)


@pytest.mark.parametrize(("name", "rules", "reason"), LEFT)
def test_a_weight_that_stays_is_named_with_the_reason(name, rules, reason):
    assert error(name, rules)[0] == 0
    assert quantize_weights(slotted(name)[0], rules)[1] == (("w", reason),)


def test_a_weight_that_another_node_reads_stays():
    model, _ = slotted("lookup")
    weight = model.graph.initializers["w"]
    model.graph.append(onnx_ir.node("Mul", [weight, weight]))
    assert quantize_weights(model, [FOUR])[1] == (("w", "Mul reads it"),)


def test_rules_read_the_names_and_the_readers_of_weights():
    def bits(name, *rules, names=None):
        (codes,) = [
            v for v in quantize_weights(slotted(name)[0], rules, names or {})[0].graph.initializers if "codes" in v
        ] or [None]
        return codes

    assert bits("tied", WeightRule("*lm_head*"), names={"w": ("w", "lm_head.weight")}) == "w.codes"
    assert bits("tied", WeightRule("*lm_head*")) is None
    assert bits("lookup", FOUR, WeightRule(read_by=["Gather"], kind="as is"), WeightRule("w", 8)) == "w.codes"


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("signed", [True, False])
def test_a_convolution_of_integers(bias, signed):
    inputs = "float[1,3,8,8] x, float[4,3,3,3] w" + (", float[4] b" if bias else "")
    nodes = f"y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w{', b' if bias else ''})"
    text = f"g ({inputs}) => (float[1,4,4,4] y) {{ {nodes} }}"
    tensors = {"x": noise(1, 3, 8, 8), "w": noise(4, 3, 3, 3, seed=1), "b": noise(4, seed=2)}
    feeds = {name: array for name, array in tensors.items() if name != "b" or bias}
    (expected,) = run_unoptimized(graph_from_text(text), **feeds)
    model = graph_from_text(text)
    weight = model.graph.inputs[1]
    model.graph.inputs.remove(weight)
    weight.meta[SLOT] = Slot("w")
    model.graph.initializers.add(weight)
    quantized = bound(quantize_weights(model, [evolve(INTEGERS, signed=signed)])[0], tensors)
    (actual,) = run_unoptimized(quantized, **{name: feeds[name] for name in feeds if name != "w"})
    assert "ConvInteger" in operators(quantized)
    assert np.sqrt(np.mean((actual - expected) ** 2) / np.mean(expected**2)) < 0.02


def test_the_kernel_computes_the_same_with_and_without_optimization():
    """The scales are cast from float16: ONNX Runtime does that when it loads the graph."""
    model, feeds = slotted("product")
    proto = onnx_ir.to_proto(bound(quantize_weights(model, [FOUR])[0], tensors_of("product")))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (plain,) = run_unoptimized(model, **feeds)
    np.testing.assert_allclose(session.run(None, feeds)[0], plain, rtol=1e-4, atol=1e-5)


def test_one_bias_for_each_expert_stays_and_is_not_named():
    """A lookup reads it as it reads a table, but a bias is worth its bytes."""
    model, _ = slotted("lookup")
    model.graph.initializers["w"].meta[SLOT] = Slot("experts.gate_up_proj_bias")
    quantized, left = quantize_weights(model, [FOUR])
    assert operators(quantized) == ["Gather"]
    assert left == ()
