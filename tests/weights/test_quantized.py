import sys
from unittest.mock import Mock

import numpy as np
import onnx_ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnxruntime.capi import _pybind_state
from onnxruntime.quantization.quant_utils import QuantType, quantize_data
from own_processes import memory_growth
from refusals import refusal

from onnxfn import InvalidSpec, LoadFailed, WeightRule
from onnxfn.specs.quantization import INTEGERS
from onnxfn.weights import onnxruntime_kernels
from onnxfn.weights import quantized as quantized_module
from onnxfn.weights.chunks import chunks, memory_key
from onnxfn.weights.packed.quantized_formats import COMPRESSED_TENSORS
from onnxfn.weights.quantized import BLOCK_BYTES, QuantizedWeight, quantized, quantized_shape, roles

DTYPES = {"scales": onnx_ir.DataType.FLOAT, "codes": onnx_ir.DataType.UINT8, "zero_points": onnx_ir.DataType.UINT8}

block_rules = st.builds(
    WeightRule, bits=st.sampled_from((2, 4, 8)), block_size=st.sampled_from((16, 32, 64)), symmetric=st.booleans()
)
shapes = st.tuples(st.integers(1, 9), st.integers(1, 100))
float_dtypes = st.sampled_from((torch.float32, torch.float16, torch.bfloat16))


def stored(matrix, rule, dtypes=DTYPES):
    tensor = quantized(QuantizedWeight("w", onnx_ir.tensor_adapters.TorchTensor(matrix), rule))
    lazy = {role: tensor(role, dtypes[role], quantized_shape(rule, role, matrix.shape)) for role in roles(rule)}
    return {
        role: np.concatenate([*chunks(tensor)]).view(dtypes[role].numpy()).reshape(tuple(tensor.shape))
        for role, tensor in lazy.items()
    }


def codes_of(packed, bits):
    parts = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1).astype(np.float64)


def dequantized(arrays, rule, columns):
    """The matrix that blocks of codes, scales and zero points stand for, and the step of each element."""
    codes = codes_of(arrays["codes"], rule.bits)
    zero = 1 << rule.bits - 1
    zeros = zero if rule.symmetric else codes_of(arrays["zero_points"], rule.bits)[:, : codes.shape[1], None]
    steps = np.broadcast_to(arrays["scales"][..., None], codes.shape)
    return [part.reshape(len(codes), -1)[:, :columns] for part in ((codes - zeros) * steps, np.abs(steps))]


@given(shapes, block_rules, float_dtypes, st.integers(0, 9))
def test_an_element_is_within_half_a_step_of_its_code(shape, rule, dtype, seed):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    restored, steps = dequantized(stored(matrix, rule), rule, shape[1])
    exact, steps = matrix.double().numpy(), np.maximum(steps, 1e-30)
    errors = np.abs(restored - exact) / steps
    # The codes of a symmetric rule reach one step less far on one side: an element beyond the last code is cut.
    assert errors.max() <= (1 if rule.symmetric else 0.5) + 0.01
    last = (1 << rule.bits - 1) - 1 if rule.symmetric else np.inf
    assert np.max(errors, where=np.abs(exact) / steps <= last + 0.5, initial=0) <= 0.51


@given(shapes, block_rules, float_dtypes)
def test_a_transposed_view_is_quantized_as_its_copy(shape, rule, dtype):
    matrix = torch.randn(shape[::-1]).to(dtype)
    for role, array in stored(matrix.T, rule).items():
        np.testing.assert_array_equal(array, stored(matrix.T.contiguous(), rule)[role])


@given(st.integers(1, 40), st.integers(1, 20), st.booleans(), st.booleans())
def test_integers_are_those_of_the_quantizer_of_onnx_runtime(rows, columns, signed, per_channel):
    matrix = torch.randn(rows, columns)
    rule = WeightRule(bits=8, kind="dynamic", signed=signed, per_channel=per_channel)
    integer = onnx_ir.DataType.INT8 if signed else onnx_ir.DataType.UINT8
    arrays = stored(matrix, rule, {**DTYPES, "codes": integer, "zero_points": integer})
    kind = (QuantType.QInt8 if signed else QuantType.QUInt8).tensor_type
    expected = [
        quantize_data(part, kind, symmetric=signed)
        for part in (matrix.numpy().T if per_channel else [matrix.numpy().reshape(-1)])
    ]
    zero_points, scales, codes = (np.stack([np.asarray(one[index]) for one in expected]) for index in range(3))
    np.testing.assert_array_equal(arrays["scales"].reshape(-1), scales.reshape(-1))
    np.testing.assert_array_equal(arrays["zero_points"].reshape(-1), zero_points.reshape(-1))
    np.testing.assert_array_equal(arrays["codes"], codes.T if per_channel else codes.reshape(rows, columns))


@given(st.tuples(*[st.integers(1, 9)] * 2, *[st.integers(1, 3)] * 2))
def test_static_kernels_have_a_scale_for_each_output_channel_as_of_onnx_runtime(shape):
    kernel = torch.randn(shape)
    rule = WeightRule(bits=8, kind="static", signed=False)  # of the activations
    of_codes = {"codes": onnx_ir.DataType.INT8, "zero_points": onnx_ir.DataType.INT8}
    arrays = stored(kernel, rule, {**DTYPES, **of_codes})
    for channel, rows in enumerate(kernel.numpy()):
        zero_point, scale, codes = quantize_data(rows.reshape(-1), QuantType.QInt8.tensor_type, symmetric=True)
        assert arrays["zero_points"][channel] == zero_point == 0
        assert arrays["scales"][channel] == scale
        np.testing.assert_array_equal(arrays["codes"][channel].reshape(-1), codes)


@pytest.mark.parametrize("symmetric", [True, False])
def test_rows_are_quantized_some_at_a_time(monkeypatch, symmetric):
    kernel = Mock(wraps=quantized_module.block_codes)
    monkeypatch.setattr(quantized_module, "block_codes", kernel)
    stored(torch.randn(9000, 512, dtype=torch.bfloat16), WeightRule(symmetric=symmetric))
    sizes = [call.args[0].nbytes for call in kernel.call_args_list]
    assert sum(sizes) == 9000 * 512 * 4
    assert max(sizes) <= BLOCK_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports anonymous memory")
def test_memory_does_not_grow_with_the_size_of_the_weight(tmp_path):
    """Scales that were gathered one step after the other kept the rows of each step from being used again."""
    rows, columns, rule = 1 << 16, 1 << 12, WeightRule()
    file = tmp_path / "weights"
    with file.open("wb") as stream:
        stream.truncate(2 * rows * columns)
    raw = torch.from_file(str(file), shared=False, size=rows * columns, dtype=torch.bfloat16).view(rows, columns)
    weight = QuantizedWeight("w", onnx_ir.tensor_adapters.TorchTensor(raw), rule)
    codes = quantized(weight)("codes", DTYPES["codes"], quantized_shape(rule, "codes", (rows, columns)))
    growth = memory_growth(chunks(codes))
    assert len(growth) == 4 * rows * columns // BLOCK_BYTES
    assert max(growth) < 4 * rows * columns // 4


def test_scales_are_computed_with_the_codes_and_let_go_when_they_were_read(monkeypatch):
    kernel = Mock(wraps=onnxruntime_kernels.block_codes)
    monkeypatch.setattr(quantized_module, "block_codes", kernel)
    weight = QuantizedWeight("w", onnx_ir.Tensor(np.ones((4, 32), np.float32)), WeightRule(symmetric=False))
    tensor = quantized(weight)
    shapes_of_roles = {role: quantized_shape(weight.rule, role, (4, 32)) for role in roles(weight.rule)}
    tensors = [tensor(role, DTYPES[role], shape) for role, shape in shapes_of_roles.items()]
    content = [b"".join(part.tobytes() for part in chunks(tensor)) for tensor in tensors]
    assert kernel.call_count == 1
    assert b"".join(part.tobytes() for part in chunks(tensors[1])) == content[1]
    assert kernel.call_count == 2
    assert [tensor.numpy().tobytes() for tensor in reversed(tensors)] == content[::-1]


def test_equal_weights_have_equal_keys():
    source = onnx_ir.tensor_adapters.TorchTensor(torch.randn(4, 64))
    keys = [
        memory_key(quantized(QuantizedWeight("w", source, rule))(role, DTYPES[role], (1,)))
        for rule in (WeightRule(), WeightRule(), WeightRule(bits=8))
        for role in roles(rule)
    ]
    assert keys[:2] == keys[2:4]
    assert len({*keys}) == 4


@pytest.mark.parametrize("kind", ["blocks", "dynamic", "static", "nf4"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_refused(kind, number):
    rule = WeightRule(bits=8 if kind in INTEGERS else 4, kind=kind)
    dtypes = {**DTYPES, "codes": onnx_ir.DataType.INT8, "zero_points": onnx_ir.DataType.INT8}
    matrix = torch.ones(4, 64)
    matrix[3, 5] = number
    message = "w has elements that are NaN or infinite, so it cannot be quantized; leave it as it is: "
    assert refusal(InvalidSpec, stored, matrix, rule, dtypes).startswith(message)


@given(st.integers(1, 9), st.integers(1, 6), block_rules)
def test_rows_that_are_whole_blocks_are_quantized_without_a_transposed_copy_as_with_it(count, blocks, rule):
    """The kernel called with the transposed rows, as it asks for: [columns, rows]."""
    width = blocks * rule.block_size * 8 // rule.bits
    rows = np.random.default_rng(count).standard_normal((count, width), np.float32)
    arrays = onnxruntime_kernels.block_codes(rows, rule.bits, rule.block_size, symmetric=rule.symmetric)
    expected = [np.zeros_like(array) for array in arrays]
    kernel = getattr(_pybind_state, f"quantize_matmul_{rule.bits}bits")
    flat = [expected[0], np.ascontiguousarray(rows.T), expected[1].reshape(-1), expected[2].reshape(-1)]
    kernel(*flat, rule.block_size, count, width, rule.symmetric)
    for array, transposed in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, transposed)


def test_a_scale_that_its_dtype_cannot_hold_is_refused():
    dtypes = {**DTYPES, "scales": onnx_ir.DataType.FLOAT16}
    message = refusal(InvalidSpec, stored, torch.full((1, 16), 1e7), WeightRule(), dtypes)
    assert message.startswith("w has blocks whose scale float16 cannot hold, the largest 1.25e+06; leave it as it is")


# Integers of compressed-tensors


def bits(columns, words, *stated):
    """The bits of the integers of a weight with 4 rows, from settings that state these numbers of bits."""
    parts = {".weight_shape": np.array([4, columns]), ".weight_packed": np.zeros((4, words), np.int32)}
    groups = {f"group_{index}": {"weights": {"num_bits": each}} for index, each in enumerate(stated)}
    return COMPRESSED_TENSORS.bits(parts, {"config_groups": groups} if stated else {})


@pytest.mark.parametrize("number", [2, 4, 8])
def test_the_stated_bits_are_those_of_the_words(number):
    assert bits(64, 2 * number, number) == bits(64, 2 * number) == bits(64, 2 * number, 2, 4, 8) == number


@pytest.mark.parametrize("number", [3, 5, 6])
@pytest.mark.parametrize("columns", [64, 16])
def test_other_bits_are_refused_also_where_the_words_would_do_for_known_ones(number, columns):
    """16 integers of 3 or 4 bits take two words, since a word holds as many as fit whole."""
    words = -(-columns // (32 // number))
    assert refusal(LoadFailed, bits, columns, words, number) == (
        f"{columns} packed integers lie in {words} words of 32 bits, and the settings state num_bits={number}; known "
        "are 2, 4, 8 bits; export the checkpoint that it was made from"
    )


def test_words_that_are_none_of_the_stated_bits_are_refused():
    assert "the settings state num_bits=4, 8; known are" in refusal(LoadFailed, bits, 64, 7, 4, 8)
    assert "63 packed integers lie in 9 words of 32 bits; known are" in refusal(LoadFailed, bits, 63, 9)
