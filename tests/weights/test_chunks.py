"""A tensor's bytes in chunks: the laws, and that memory does not grow with what is streamed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.weights.chunks import (
    CHUNK_BYTES,
    MAX_CHUNK_BYTES,
    TILE_SIZE,
    chunks,
    concatenated_columns,
    memory_key,
    prefetched,
)

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


def weight(raw):
    return ir.tensor_adapters.TorchTensor(raw)


def filled(shape, dtype):
    """A tensor of these sizes whose bytes are all sorts, as far as its type allows them."""
    count = int(np.prod(shape, dtype=int))
    made = torch.arange(count * dtype.itemsize, dtype=torch.int64).mul(37).remainder(251)
    return (made[:count] % 2 == 0 if dtype is torch.bool else made.to(torch.uint8).view(dtype)).reshape(shape)


def joined(tensor, *most):
    return b"".join(bytes(chunk) for chunk in chunks(tensor, *most))


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
def test_the_chunks_are_the_bytes_of_the_tensor(raw, most):
    whole = raw.clone(memory_format=torch.contiguous_format)
    assert joined(weight(raw), most) == whole.reshape(-1).view(torch.uint8).numpy().tobytes()


@given(views())
def test_the_chunks_are_the_bytes_that_onnx_ir_would_write(raw):
    assert joined(weight(raw)) == weight(raw).tobytes()


@given(
    st.lists(st.tuples(st.integers(1, 3 * TILE_SIZE), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 2 * TILE_SIZE + 1),
)
def test_the_chunks_of_matrices_beside_each_other_are_their_rows(columns, rows):
    raws = [
        filled((many, rows), torch.int16).t() if turned else filled((rows, many), torch.int16)
        for many, turned in columns
    ]
    whole = concatenated_columns([weight(raw) for raw in raws])
    assert tuple(whole.shape) == (rows, sum(many for many, _ in columns))
    assert joined(whole) == np.concatenate([raw.numpy() for raw in raws], axis=-1).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    "shape",
    [
        (TILE_SIZE, TILE_SIZE),
        (TILE_SIZE * 3 + 1, TILE_SIZE * 2 - 1),
        (1, 5 * TILE_SIZE),
        (5 * TILE_SIZE, 1),
        (700, 999),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_large_transposed_matrix_is_turned_tile_by_tile(shape, dtype):
    raw = filled(shape, dtype).t()
    assert joined(weight(raw), 1000) == weight(raw).tobytes()


def test_matrices_that_are_transposed_inside_a_stack_are_turned_one_by_one():
    raw = filled((3, 300, 200), torch.float32).transpose(1, 2)
    assert joined(weight(raw), 1000) == weight(raw).tobytes()


def test_a_conjugated_view_is_written_as_what_it_stands_for():
    raw = torch.view_as_complex(filled((4, 5, 2), torch.float32).nan_to_num()).conj()
    assert joined(weight(raw)) == raw.resolve_conj().numpy().tobytes()


@given(views().filter(lambda raw: raw.dtype in (torch.float32, torch.int8, torch.bool)), st.integers(1, 64))
def test_an_array_comes_as_a_tensor_of_torch_does(raw, most):
    assert joined(ir.Tensor(raw.numpy()), most) == joined(weight(raw), most)


@pytest.mark.parametrize("shape", [(TILE_SIZE * 3 + 1, TILE_SIZE * 2 - 1), (700, 999)])
def test_a_large_transposed_array_is_turned_tile_by_tile(shape):
    raw = filled(shape, torch.float32).t()
    assert joined(ir.Tensor(raw.numpy()), 1000) == weight(raw).tobytes()


@pytest.mark.parametrize(
    "made",
    [
        ir.tensor([-1], dtype=ir.DataType.INT4),
        ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3).T),
        ir.tensor([1, -2, 3], dtype=ir.DataType.INT4),
        ir.tensor(7.0),
    ],
    ids=str,
)
def test_what_is_no_torch_tensor_comes_as_onnx_ir_writes_it(made):
    assert joined(made) == made.tobytes()


def test_a_tensor_that_lies_in_order_is_not_copied():
    raw = torch.zeros(3 * CHUNK_BYTES, dtype=torch.uint8)
    places = [chunk.ctypes.data for chunk in chunks(weight(raw))]
    assert places == [raw.data_ptr(), raw.data_ptr() + CHUNK_BYTES, raw.data_ptr() + 2 * CHUNK_BYTES]


def test_no_chunk_is_larger_than_is_said():
    for raw in (torch.zeros(1 << 20, 16).t(), torch.zeros(300, 300, 30).permute(2, 0, 1), torch.zeros(1 << 20, 3)):
        assert max(len(chunk) for chunk in chunks(weight(raw))) <= MAX_CHUNK_BYTES
    assert max(len(chunk) for chunk in chunks(weight(torch.zeros(1 << 20, 3)))) <= CHUNK_BYTES


def test_two_tensors_are_one_when_they_look_at_the_same_bytes():
    raw = torch.arange(12.0)
    assert memory_key(weight(raw)) == memory_key(weight(raw.view(3, 4)))
    assert memory_key(weight(raw)) != memory_key(weight(raw.clone()))
    assert memory_key(weight(raw)) != memory_key(weight(raw[:6]))
    assert memory_key(weight(raw)) == memory_key(ir.Tensor(raw.numpy()))
    assert memory_key(weight(raw.view(3, 4).t())) == memory_key(weight(raw.view(3, 4).t()))
    assert memory_key(weight(raw.view(3, 4).t())) not in {
        memory_key(weight(raw)),
        memory_key(weight(raw.view(4, 3).t())),
    }
    assert memory_key(ir.tensor([1, -2, 3], dtype=ir.DataType.INT4)) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells anonymous memory from a file's pages")
@pytest.mark.parametrize("turned", [False, True])
def test_memory_does_not_grow_with_what_is_streamed(tmp_path, turned):
    file = tmp_path / "weights"
    with file.open("wb") as opened:
        opened.truncate(1 << 28)
    raw = torch.from_file(str(file), shared=False, size=1 << 26).view(1 << 13, 1 << 13)
    before = anonymous()
    grown = [anonymous() - before + 0 * int(chunk[0]) for chunk in chunks(weight(raw.t() if turned else raw))]
    assert len(grown) >= (1 << 13) // TILE_SIZE
    assert max(grown) < raw.nbytes // 3


def anonymous():
    """Bytes of memory of this process that are no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) << 10


def test_what_is_made_ahead_comes_in_order_and_no_more_than_is_said():
    begun = []
    with prefetched(lambda one: begun.append(one) or one * one, range(9), 3) as made:
        assert next(made) == 0
        assert max(begun) <= 3
        assert list(made) == [1, 4, 9, 16, 25, 36, 49, 64]
    with prefetched(str, [], 3) as made:
        assert list(made) == []


def test_what_goes_wrong_ahead_is_told_where_it_is_asked_for():
    with prefetched(lambda one: 1 / one, [1, 0], 2) as made:
        assert next(made) == 1
        with pytest.raises(ZeroDivisionError):
            next(made)


def test_on_leaving_nothing_more_is_made():
    begun = []
    with pytest.raises(KeyError), prefetched(lambda one: begun.append(one) or time.sleep(0.05), range(50), 50):
        raise KeyError
    made = len(begun)
    assert made < 50
    time.sleep(0.2)
    assert len(begun) == made
