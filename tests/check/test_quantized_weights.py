"""Each quantized weight in a file is within a step of the model's own; a wrong one is named."""

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stock_quantizers import FORMATS, initializers, with_changed

import onnxfn
from onnxfn.check.variants.quantized_matrices import quantized_matrices
from onnxfn.check.variants.quantized_weights import quantized_weight_errors

DOWN, OTHER_DOWN = (f"model.layers.{layer}.mlp.down_proj.weight" for layer in (0, 1))
TABLE = "model.embed_tokens.weight"
SPEC = onnxfn.spec_for("llama", "text-generation")


@pytest.fixture(scope="module")
def quantized(wide_llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantized")
    onnxfn.export(SPEC, wide_llama, folder / "own", check=False)
    onnxfn.export(onnxfn.quantize(SPEC, bits=4), wide_llama, folder / "with tables", check=False)
    stock = {name: write(folder / "own" / "model.onnx", folder / name / "m.onnx") for name, write in FORMATS.items()}
    return {**stock, "with tables": folder / "with tables" / "model.onnx"}


@pytest.mark.parametrize("form", [*FORMATS, "with tables"])
def test_the_weights_of_a_right_file_are_within_their_steps(wide_llama, quantized, form):
    errors, unknown = quantized_weight_errors(wide_llama, quantized[form])
    tables = 1 if form == "with tables" else 0
    assert (len(errors), unknown) == (2 * 7 + 1 + tables, ())
    assert not any(error.outside for error in errors)
    assert min(error.cosine for error in errors) > (0.9999 if "8" in form else 0.99)


@pytest.mark.parametrize("form", ["4 bits", "4 bits with zero points", "8 bits", "nf4"])
def test_the_elements_are_those_that_onnx_runtime_multiplies_with(wide_llama, quantized, form, tmp_path):
    """The product with an identity matrix gives the elements; they are compared with those that were read."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(quantized[form])
    node = next(node for node in model.graph.node if node.input[1:] and node.input[1].startswith(DOWN))
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in node.input[1:]]
    size = wide_llama.config.intermediate_size
    graph = helper.make_graph(
        [helper.make_node(node.op_type, ["x", *node.input[1:]], ["y"], domain=node.domain)],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        tensors,
    )
    graph.node[0].attribute.extend(node.attribute)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    product = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(product.SerializeToString(), providers=["CPUExecutionProvider"])
    (by_runtime,) = session.run(None, {"x": np.eye(size, dtype=np.float32)})
    matrix = next(matrix for matrix in quantized_matrices(quantized[form]) if matrix.name.startswith(DOWN))
    np.testing.assert_allclose(matrix.elements(slice(None)).values(), by_runtime.T, rtol=1e-5, atol=1e-6)


def swapped_nibbles(data, _):
    return (data >> 4) | (data << 4)


def other(name):
    return lambda _, read: read(name)


FAULTS = {
    "halved scales": ("4 bits", DOWN, {"_scales": lambda data, _: data / 2}),
    "doubled scales": ("4 bits", DOWN, {"_scales": lambda data, _: data * 2}),
    "scales of the other sign": ("4 bits", DOWN, {"_scales": lambda data, _: -data}),
    "scales of other blocks": ("4 bits", DOWN, {"_scales": lambda data, _: data[:, ::-1]}),
    "swapped nibbles": ("4 bits", DOWN, {"_Q4": swapped_nibbles}),
    "two layers swapped": (
        *("4 bits", DOWN),
        {"_Q4": other(f"{OTHER_DOWN}_Q4"), "_scales": other(f"{OTHER_DOWN}_scales")},
    ),
    "rows moved by one": (
        *("4 bits", DOWN),
        {"_Q4": lambda data, _: np.roll(data, 1, 0), "_scales": lambda data, _: np.roll(data, 1, 0)},
    ),
    "one byte": ("4 bits", DOWN, {"_Q4": lambda data, _: changed_byte(data)}),
    "tokens in another order": ("with tables", TABLE, {".codes": lambda data, _: np.roll(data, 1, 0)}),
    "shifted zero points": ("4 bits with zero points", DOWN, {"_zero_points": lambda data, _: data + 1}),
    "no zero points": ("4 bits with zero points", DOWN, {"_zero_points": lambda data, _: data * 0}),
    "swapped zero points": ("4 bits with zero points", DOWN, {"_zero_points": swapped_nibbles}),
    "halved scales of 8 bits": ("8 bits", DOWN, {"_scales": lambda data, _: data / 2}),
    "a low nibble lost": ("8 bits", DOWN, {"_Q8": lambda data, _: data & 0xF0}),
    "halved scale": ("int8", DOWN, {"_scale": lambda data, _: data / 2}),
    "columns in another order": ("int8", DOWN, {"_quantized": lambda data, _: data[:, ::-1]}),
    "scales of other columns": ("int8 by columns", DOWN, {"_scale": lambda data, _: data[::-1]}),
    "a shifted zero point": ("uint8", DOWN, {"_zero_point": lambda data, _: data + 1}),
    "swapped levels": ("nf4", DOWN, {"_Bnb4": swapped_nibbles}),
    "halved largest elements": ("nf4", DOWN, {"_absmax": lambda data, _: data / 2}),
}


def changed_byte(data):
    changed = data.copy()
    changed[5, 1, 7] ^= 0x44
    return changed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_weight_is_found_and_the_weight_is_named(wide_llama, quantized, fault, tmp_path):
    form, weight, changes = FAULTS[fault]
    names = initializers(quantized[form])
    named = {end: next(each for each in names if each.startswith(weight) and each.endswith(end)) for end in changes}
    full = {named[end]: change for end, change in changes.items()}
    errors, unknown = quantized_weight_errors(wide_llama, with_changed(quantized[form], tmp_path / "model.onnx", full))
    assert unknown == ()
    assert [error.weight for error in errors if error.outside] == [weight]
    assert weight in str(next(error for error in errors if error.outside))


def test_a_quantized_weight_that_the_model_does_not_have_is_named(wide_llama, quantized):
    renamed = torch.nn.ModuleDict({"other": torch.nn.Linear(2, 2)})
    errors, unknown = quantized_weight_errors(renamed, quantized["8 bits"])
    assert errors == ()
    assert len(unknown) == 15
    assert "no weight of the model has its name" in unknown[0]


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 4, 8]))
def test_unpacking_is_the_inverse_of_packing(seed, bits):
    from onnxfn.check.variants.quantized_matrices import _unpacked

    codes = np.random.default_rng(seed).integers(0, 1 << bits, (3, 16), dtype=np.uint8)
    groups = codes.reshape(3, -1, 8 // bits)
    packed = sum(groups[..., place] << (bits * place) for place in range(8 // bits)).astype(np.uint8)
    assert np.array_equal(_unpacked(packed, bits), codes)
