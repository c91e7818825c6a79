"""The bytes of a tensor in chunks: their laws, and that memory does not grow with the size of the tensor."""

import sys
import time

import numpy as np
import onnx_ir as ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx_ir.tensor_adapters import from_torch_dtype
from own_processes import memory_growth

from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.chunks import CHUNK_BYTES, MAX_CHUNK_BYTES, TILE_SIZE, chunks, converted, memory_key, prefetched

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
)
FLOATS = DTYPES[:4]

weight = ir.tensor_adapters.TorchTensor


def filled(shape, dtype):
    """A tensor whose bytes take many values, as far as its dtype allows."""
    count = int(np.prod(shape, dtype=int))
    content = torch.arange(count * dtype.itemsize, dtype=torch.int64).mul(37).remainder(251)
    return (content[:count] % 2 == 0 if dtype is torch.bool else content.to(torch.uint8).view(dtype)).reshape(shape)


def joined(tensor, *size):
    return b"".join(bytes(chunk) for chunk in chunks(tensor, *size))


@st.composite
def views(draw):
    """A view of a tensor: its axes in any order, a slice of each, with a step, and perhaps one axis repeated."""
    shape = draw(st.lists(st.integers(0, 7), max_size=4))
    raw = filled(shape, draw(st.sampled_from(DTYPES)))
    raw = raw.permute(draw(st.permutations(range(len(shape)))))
    for axis in range(raw.ndim):
        start = draw(st.integers(0, raw.shape[axis]))
        raw = raw.movedim(axis, 0)[start :: draw(st.integers(1, 3))].movedim(0, axis)
    return raw.unsqueeze(0).expand(3, *raw.shape) if draw(st.booleans()) else raw


@given(views(), st.integers(1, 64))
def test_the_chunks_are_the_bytes_of_the_tensor_and_those_that_onnx_ir_writes(raw, size):
    expected = raw.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).numpy().tobytes()
    assert joined(weight(raw), size) == joined(weight(raw)) == weight(raw).tobytes() == expected


@pytest.mark.parametrize(
    "shape",
    [
        (TILE_SIZE, TILE_SIZE),
        (TILE_SIZE * 3 + 1, TILE_SIZE * 2 - 1),
        (1, 5 * TILE_SIZE),
        (5 * TILE_SIZE, 1),
        (700, 999),
        (3, 300, 200),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_large_transposed_matrices_are_copied_by_tiles(shape, dtype):
    """Those of a batch one by one, and those of NumPy as those of torch."""
    raw = filled(shape, dtype).transpose(-1, -2)
    expected = weight(raw).tobytes()
    assert joined(weight(raw), 1000) == expected
    if dtype is not torch.bfloat16:  # NumPy has no such numbers
        assert joined(ir.Tensor(raw.numpy()), 1000) == expected


def test_a_conjugated_view_is_written_with_its_values():
    raw = torch.view_as_complex(filled((4, 5, 2), torch.float32).nan_to_num()).conj()
    assert joined(weight(raw)) == raw.resolve_conj().numpy().tobytes()


@given(views().filter(lambda raw: raw.dtype in (torch.float32, torch.int8, torch.bool)), st.integers(1, 64))
def test_a_numpy_array_has_the_same_chunks_as_a_torch_tensor(raw, size):
    assert joined(ir.Tensor(raw.numpy()), size) == joined(weight(raw), size)


@pytest.mark.parametrize(
    "tensor",
    [
        ir.tensor([-1], dtype=ir.DataType.INT4),
        ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3).T),
        ir.tensor([1, -2, 3], dtype=ir.DataType.INT4),
        ir.tensor(7.0),
    ],
    ids=str,
)
def test_other_tensors_have_the_bytes_that_onnx_ir_writes(tensor):
    assert joined(tensor) == tensor.tobytes()


def test_a_contiguous_tensor_is_not_copied():
    raw = torch.zeros(3 * CHUNK_BYTES, dtype=torch.uint8)
    addresses = [chunk.ctypes.data for chunk in chunks(weight(raw))]
    assert addresses == [raw.data_ptr(), raw.data_ptr() + CHUNK_BYTES, raw.data_ptr() + 2 * CHUNK_BYTES]


def test_no_chunk_is_larger_than_the_limit():
    for raw in (torch.zeros(1 << 20, 16).t(), torch.zeros(300, 300, 30).permute(2, 0, 1), torch.zeros(1 << 20, 3)):
        assert max(len(chunk) for chunk in chunks(weight(raw))) <= MAX_CHUNK_BYTES
    assert max(len(chunk) for chunk in chunks(weight(torch.zeros(1 << 20, 3)))) <= CHUNK_BYTES


def test_memory_keys_are_equal_for_views_of_the_same_bytes():
    raw = torch.arange(12.0)
    assert memory_key(weight(raw)) == memory_key(weight(raw.view(3, 4)))
    assert memory_key(weight(raw)) != memory_key(weight(raw.clone()))
    assert memory_key(weight(raw)) != memory_key(weight(raw[:6]))
    assert memory_key(weight(raw)) == memory_key(ir.Tensor(raw.numpy()))
    assert memory_key(weight(raw.view(3, 4).t())) == memory_key(weight(raw.view(3, 4).t()))
    others = {memory_key(weight(raw)), memory_key(weight(raw.view(4, 3).t()))}
    assert memory_key(weight(raw.view(3, 4).t())) not in others
    assert memory_key(ir.tensor([1, -2, 3], dtype=ir.DataType.INT4)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports anonymous memory")
@pytest.mark.parametrize("transposed", [False, True])
def test_memory_does_not_grow_with_the_size_of_the_tensor(tmp_path, transposed):
    file = tmp_path / "weights"
    with file.open("wb") as stream:
        stream.truncate(1 << 28)
    raw = torch.from_file(str(file), shared=False, size=1 << 26).view(1 << 13, 1 << 13)
    growth = memory_growth(chunks(weight(raw.t() if transposed else raw)))
    assert len(growth) >= (1 << 13) // TILE_SIZE
    assert max(growth) < raw.nbytes // 3


def test_prefetched_results_come_in_order_and_are_limited_in_number():
    begun = []
    with prefetched(lambda number: begun.append(number) or number * number, range(9), 3) as results:
        assert next(results) == 0
        assert max(begun) <= 3
        assert list(results) == [1, 4, 9, 16, 25, 36, 49, 64]
    with prefetched(str, [], 3) as results:
        assert list(results) == []


def test_a_prefetched_error_is_raised_where_its_result_is_taken():
    with prefetched(lambda number: 1 / number, [1, 0], 2) as results:
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_no_call_begins_after_the_context_of_prefetched():
    begun = []
    with pytest.raises(KeyError), prefetched(lambda number: begun.append(number) or time.sleep(0.05), range(50), 50):
        raise KeyError
    count = len(begun)
    assert count < 50
    time.sleep(0.2)
    assert len(begun) == count


# Conversion to another float dtype while weights are read


@given(
    st.tuples(st.integers(0, 40), st.integers(1, 300)), st.sampled_from(FLOATS), st.sampled_from(FLOATS), st.booleans()
)
def test_the_bytes_are_those_of_the_converted_tensor(shape, before, after, transposed):
    values = torch.randn(shape).to(before)
    values = values.T if transposed else values
    tensor = converted(weight(values, name="w"), from_torch_dtype(after))
    expected = values.to(after).reshape(-1).view(torch.uint8).numpy().tobytes()
    assert joined(tensor, 256) == joined(tensor, 1 << 20) == expected == tensor.tobytes()
    assert (tensor.nbytes, tuple(tensor.shape)) == (len(expected), tuple(values.shape))


def test_one_memory_in_two_dtypes_has_two_keys():
    tensor = weight(torch.ones(4, 4, dtype=torch.bfloat16), name="w")
    keys = {memory_key(tensor), *(memory_key(converted(tensor, dtype)) for dtype in (ir.DataType.FLOAT,) * 2)}
    assert len(keys) == 2
    assert converted(tensor, ir.DataType.BFLOAT16) is tensor


def test_a_mapped_array_that_cannot_be_written_is_converted_without_a_warning(recwarn):
    array = np.ones((3, 4), np.float32)
    array.flags.writeable = False
    assert joined(converted(ir.Tensor(array, name="w"), ir.DataType.FLOAT16), 8) == array.astype(np.float16).tobytes()
    assert not list(recwarn)


def test_a_value_that_is_too_large_is_named_and_infinite_ones_are_not():
    values = torch.tensor([1.0, 7e4, float("inf"), -9e4])
    tensor = converted(weight(values, name="w"), ir.DataType.FLOAT16)
    with pytest.raises(InvalidSpec, match=r"^w has 2 values that float16 cannot hold, the largest 9e\+04; "):
        joined(tensor, 4)
    assert joined(converted(weight(values[:1], name="w"), ir.DataType.FLOAT16), 4)
