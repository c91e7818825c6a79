"""Weights that an adapter changes have the same bits for every reader, and those of the formula."""

from __future__ import annotations

import onnx_ir
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx_ir.tensor_adapters import from_torch_dtype

from onnxfn.weights.chunks import chunks, memory_key
from onnxfn.weights.updates import (
    TILE,
    Update,
    converted,
    rows_of,
    update_of,
    updated_tensor,
    weight_in_dtype,
    with_update,
)

SIZES = st.sampled_from([1, 3, TILE - 1, TILE, 2 * TILE + 5])
DTYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])


def updated(rows, columns, dtype=torch.float32, *, factor=False):
    weight = torch.nn.Parameter(torch.randn(rows, columns).to(dtype))
    column = torch.rand(rows, 1) + 0.5 if factor else None
    return with_update(weight, Update(torch.randn(rows, 3), torch.randn(3, columns), 0.7, column))


def formula(tensor):
    update = update_of(tensor)
    wide = tensor.detach().double() + update.scale * (update.left.double() @ update.right.double())
    return wide if update.factor is None else update.factor.double() * wide


def read(tensor):
    return b"".join(part.tobytes() for part in chunks(tensor))


def tensor_bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


@given(SIZES, SIZES, DTYPES, DTYPES, st.booleans(), st.booleans())
def test_all_readers_get_the_same_bits(rows, columns, before, after, transposed, factor):
    weight = updated(rows, columns, before, factor=factor)
    merged = weight_in_dtype(weight, after)
    assert torch.allclose(weight_in_dtype(weight, torch.float32).double(), formula(weight), rtol=1e-5, atol=1e-5)
    tensor = converted(updated_tensor(weight, (1, 0) if transposed else (), "w"), from_torch_dtype(after))
    expected = merged.T if transposed else merged
    assert tuple(tensor.shape) == tuple(expected.shape)
    assert read(tensor) == tensor.tobytes() == tensor_bytes(expected)


def test_rows_have_their_part_of_the_update():
    weight = updated(700, 40, factor=True)
    part = weight_in_dtype(rows_of(weight, slice(300, 500)), torch.float32)
    assert torch.allclose(part, weight_in_dtype(weight, torch.float32)[300:500])


def test_a_kernel_of_a_convolution_is_a_matrix_of_its_rows():
    weight = torch.nn.Parameter(torch.randn(6, 4, 3, 3))
    update = Update(torch.randn(6, 2), torch.randn(2, 36), 2.0)
    merged = weight_in_dtype(with_update(weight, update), torch.float32)
    expected = weight + 2.0 * torch.einsum("or,rihw->oihw", update.left, update.right.view(2, 4, 3, 3))
    assert torch.allclose(merged, expected, atol=1e-5)
    turned = updated_tensor(with_update(weight, update), (2, 3, 1, 0), "w")
    assert read(turned) == tensor_bytes(merged.permute(2, 3, 1, 0))


def test_the_memory_of_a_weight_has_another_key_with_an_update():
    weight = updated(4, 4)
    plain = onnx_ir.tensor_adapters.TorchTensor(weight.detach(), name="w")
    keys = [memory_key(updated_tensor(weight, perm, "w")) for perm in ((), (), (1, 0))]
    assert keys[0] == keys[1] != keys[2]
    assert memory_key(plain) not in keys
    assert None not in keys
