"""Views that are found from sizes and strides alone have the elements that torch gives them."""

import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.graphs.sizes.dense_outputs import memory_order, strides_in_order, view_layout
from onnxfn.graphs.sizes.size_factors import Factors, product

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def permuted(draw):
    """A dense tensor whose axes lie in any order in memory, and that order."""
    shape = draw(shapes)
    order = draw(st.permutations(range(len(shape))))
    inverse = sorted(range(len(order)), key=order.__getitem__)
    tensor = torch.arange(torch.Size(shape).numel()).reshape([shape[axis] for axis in order]).permute(inverse)
    return tensor, order


@given(permuted())
def test_the_order_of_a_dense_tensor_gives_its_strides(pair):
    tensor, _ = pair
    order = memory_order(tensor)
    assert sorted(order) == [*range(tensor.dim())]
    strides = strides_in_order(tensor.shape, order)
    assert torch.equal(tensor.as_strided(tensor.shape, strides), tensor)


def test_a_tensor_with_gaps_or_repeated_elements_has_no_order():
    assert memory_order(torch.zeros(4, 6)[:, ::2]) is None
    assert memory_order(torch.zeros(4, 6)[:, 1:]) is None
    assert memory_order(torch.zeros(4, 1).expand(4, 6)) is None


@given(permuted(), shapes, st.integers(-1, 4))
def test_a_view_has_the_elements_of_the_tensor(pair, shape, unknown):
    tensor, _ = pair
    wanted = [-1 if axis == unknown else size for axis, size in enumerate(shape)]
    layout = view_layout(tensor, wanted)
    if layout is not None:
        assert torch.equal(tensor.as_strided(*layout), tensor.reshape(wanted))


@given(permuted())
def test_an_axis_can_be_split_and_merged_again(pair):
    tensor, _ = pair
    halves = torch.stack([tensor, tensor + 1], -1)
    split = [*tensor.shape[:-1], tensor.shape[-1] * 2]
    merged = halves.reshape(split)
    assert torch.equal(merged.as_strided(*view_layout(merged, halves.shape)), halves)
    assert torch.equal(halves.contiguous().as_strided(*view_layout(halves.contiguous(), split)), merged)


def test_a_quotient_of_products_has_the_factors_that_are_left():
    x, y = sympy.symbols("x y", integer=True, positive=True)
    rows, columns = Factors(2, {x + 1: 1}), Factors(3, {y: 2})
    assert (rows * columns).without(columns) == rows
    assert rows.without(columns) is None
    assert Factors(6).without(Factors(4)) is None
    assert Factors(0).without(Factors(0)) is None
    assert product([2, 3, 4]) == Factors(24)
