"""Weights are converted to another float dtype while they are read, and have the bytes that torch gives them."""

import numpy as np
import onnx_ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype

from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.chunks import chunks, converted, memory_key

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read(tensor, size):
    return b"".join(part.tobytes() for part in chunks(tensor, size))


@given(
    st.tuples(st.integers(0, 40), st.integers(1, 300)), st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.booleans()
)
def test_the_bytes_are_those_of_the_converted_tensor(shape, before, after, transposed):
    values = torch.randn(shape).to(before)
    values = values.T if transposed else values
    tensor = converted(TorchTensor(values, name="w"), from_torch_dtype(after))
    expected = values.to(after).reshape(-1).view(torch.uint8).numpy().tobytes()
    assert read(tensor, 256) == read(tensor, 1 << 20) == expected == tensor.tobytes()
    assert (tensor.nbytes, tuple(tensor.shape)) == (len(expected), tuple(values.shape))


def test_one_memory_in_two_dtypes_has_two_keys():
    tensor = TorchTensor(torch.ones(4, 4, dtype=torch.bfloat16), name="w")
    keys = {memory_key(tensor), *(memory_key(converted(tensor, dtype)) for dtype in (onnx_ir.DataType.FLOAT,) * 2)}
    assert len(keys) == 2
    assert converted(tensor, onnx_ir.DataType.BFLOAT16) is tensor


def test_a_mapped_array_that_cannot_be_written_is_converted_without_a_warning(recwarn):
    array = np.ones((3, 4), np.float32)
    array.flags.writeable = False
    tensor = converted(onnx_ir.Tensor(array, name="w"), onnx_ir.DataType.FLOAT16)
    assert read(tensor, 8) == array.astype(np.float16).tobytes()
    assert not list(recwarn)


def test_a_value_that_is_too_large_is_named_and_infinite_ones_are_not():
    values = torch.tensor([1.0, 7e4, float("inf"), -9e4])
    tensor = converted(TorchTensor(values, name="w"), onnx_ir.DataType.FLOAT16)
    with pytest.raises(InvalidSpec, match=r"^w has 2 values that float16 cannot hold, the largest 9e\+04; "):
        read(tensor, 4)
    assert read(converted(TorchTensor(values[:1], name="w"), onnx_ir.DataType.FLOAT16), 4)
