"""Sizes are products of their factors, their quotients are those of torch, and so are views found from sizes alone."""

import operator
from math import prod

import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import FloorDiv, Mod

from onnxfn.graphs.sizes.dense_outputs import memory_order, strides_in_order, view_layout
from onnxfn.graphs.sizes.fake_outputs import fast_fake_outputs
from onnxfn.graphs.sizes.size_factors import COMPARISONS, Factors, factors_of, fast_sizes, formula_of, product

WINDOW = 3
X, Y = sympy.symbols("x y", integer=True, nonnegative=True)
formulas = st.recursive(
    st.sampled_from([X, Y, sympy.Integer(1), sympy.Integer(WINDOW)]),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map(lambda pair: pair[0] + pair[1]),
        st.tuples(parts, parts).map(lambda pair: pair[0] * pair[1]),
        parts.map(lambda part: Mod(part, WINDOW)),
        parts.map(lambda part: part + Mod(WINDOW - Mod(part, WINDOW), WINDOW)),
        parts.map(lambda part: FloorDiv(part, WINDOW)),
    ),
    max_leaves=8,
)


def at(formula, x, y):
    return formula.subs({X: x, Y: y})


@given(formulas, st.integers(0, 9), st.integers(0, 9))
def test_the_product_of_the_factors_is_the_size(formula, x, y):
    found = factors_of(formula)
    assert found.number * prod(at(base, x, y) ** power for base, power in found.powers.items()) == at(formula, x, y)
    assert at(formula_of(found), x, y) == at(formula, x, y)


def test_a_padded_size_is_a_number_of_windows():
    rows = FloorDiv(X - 1, 2) + 1
    padded = rows + Mod(7 - Mod(rows, 7), 7)
    assert factors_of(padded) == Factors(7, {FloorDiv(padded, 7): 1})
    assert factors_of(padded + 1) == Factors(1, {padded + 1: 1})
    assert factors_of(X + Mod(X, 7)) == Factors(1, {X + Mod(X, 7): 1})


def sizes_of_a_trace():
    """A function from a formula to a size in a trace at 5 and 7, and one from such a size to its value at others."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])
    rows, columns = mode.from_tensor(torch.ones(5, 7), symbolic_context=context, source=ConstantSource("x")).shape
    symbols = {X: rows.node.expr, Y: columns.node.expr}

    def size(of):
        return mode.shape_env.create_symintnode(of.xreplace(symbols), hint=int(at(of, 5, 7)))

    def value(of, x, y):
        return of if isinstance(of, int) else of.node.expr.subs({rows.node.expr: x, columns.node.expr: y})

    return size, value


@given(formulas, formulas, st.integers(1, 9), st.integers(1, 9))
def test_quotients_are_those_of_torch(formula, divisor, x, y):
    size, value = sizes_of_a_trace()
    if at(divisor, x, y) == 0 or at(divisor, 5, 7) == 0:
        return
    with fast_sizes():
        quotient, remainder = size(formula) // size(divisor), size(formula) % size(divisor)
    assert value(quotient, x, y) == at(formula, x, y) // at(divisor, x, y)
    assert value(remainder, x, y) == at(formula, x, y) % at(divisor, x, y)


@given(formulas, st.integers(-1, 20), st.integers(2, 9), st.integers(2, 9))
def test_comparisons_hold_at_all_sizes_that_are_traced(formula, number, x, y):
    """torch traces sizes from 2 on. An answer that it would have to compute is a formula, and has a value, too."""
    size, value = sizes_of_a_trace()
    for name in COMPARISONS:
        compare = getattr(operator, name)
        with fast_sizes():
            answer = compare(size(formula), number)
        assert bool(value(answer, x, y)) == compare(int(at(formula, x, y)), number)


def test_a_comparison_with_less_than_the_least_value_is_known():
    size, _ = sizes_of_a_trace()
    with fast_sizes():
        answers = [getattr(operator, name)(size(X * Y + 1), 4) for name in COMPARISONS]
    assert all(type(answer) is bool for answer in answers)


class Windows(torch.nn.Module):
    """Pads images, cuts them into windows of 7 x 7 and merges these again, as window attention does."""

    def forward(self, images):
        _, rows, columns, channels = images.shape
        padded = torch.nn.functional.pad(images, (0, 0, 0, (7 - columns % 7) % 7, 0, (7 - rows % 7) % 7))
        batch, high, wide, _ = padded.shape
        cut = padded.view(batch, high // 7, 7, wide // 7, 7, channels)
        windows = cut.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 7, 7, channels).relu()
        grid = windows.view(-1, high // 7, wide // 7, 7, 7, channels)
        merged = grid.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, high, wide, channels)
        return merged[:, :rows, :columns]


def test_windows_that_are_merged_have_the_batch_of_the_images():
    axes = dict.fromkeys(range(3), torch.export.Dim.DYNAMIC)
    with fast_fake_outputs(), fast_sizes():
        program = torch.export.export(Windows(), (torch.randn(2, 25, 30, 4),), dynamic_shapes=(axes,))
    (result,) = (node.args[0][0] for node in program.graph.nodes if node.op == "output")
    (images,) = (node for node in program.graph.nodes if node.op == "placeholder")
    assert result.meta["val"].shape[0].node.expr == images.meta["val"].shape[0].node.expr
    other = torch.randn(3, 20, 37, 4)
    assert torch.equal(program.module()(other), Windows()(other))


# Views that are found from sizes and strides alone have the elements that torch gives them

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
    assert torch.equal(tensor.as_strided(tensor.shape, strides_in_order(tensor.shape, order)), tensor)


def test_a_tensor_with_gaps_or_repeated_elements_has_no_order():
    tensors = (torch.zeros(4, 6)[:, ::2], torch.zeros(4, 6)[:, 1:], torch.zeros(4, 1).expand(4, 6))
    assert [memory_order(tensor) for tensor in tensors] == [None] * 3


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
