"""Comparisons by least values are those of torch, and no formula has a value below its least."""

from __future__ import annotations

import operator

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._sympy.functions import FloorDiv, Max
from torch.utils._sympy.numbers import int_oo

from onnxfn.graphs.sizes.size_factors import fast_comparisons, least_value

ROWS, COLUMNS = sympy.symbols("rows columns", integer=True)
small = st.integers(-4, 9)
formulas = st.recursive(
    st.sampled_from([ROWS, COLUMNS]) | small.map(sympy.Integer),
    lambda parts: st.one_of(
        st.builds(operator.add, parts, parts),
        st.builds(operator.mul, parts, parts),
        st.builds(lambda part, divisor: FloorDiv(part, sympy.Integer(divisor)), parts, st.integers(1, 5)),
        st.builds(Max, parts, parts),
    ),
    max_leaves=6,
)


@given(formulas, small, small, st.integers(0, 9), st.integers(0, 9))
def test_no_value_is_below_the_least(formula, rows, columns, more_rows, more_columns):
    least = least_value(formula, {ROWS: rows, COLUMNS: columns})
    value = formula.xreplace({ROWS: sympy.Integer(rows + more_rows), COLUMNS: sympy.Integer(columns + more_columns)})
    assert least is None or value >= least


@pytest.mark.parametrize("formula", [sympy.Rational(1, 2), sympy.oo, int_oo, -int_oo, sympy.true, ROWS**COLUMNS, -ROWS])
def test_other_formulas_have_no_least_value(formula):
    assert least_value(formula, {ROWS: 2}) is None


@pytest.mark.parametrize("compare", [operator.gt, operator.ge, operator.lt, operator.le, operator.eq, operator.ne])
def test_comparisons_are_those_of_torch_and_set_no_limit(compare):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])
    rows, columns = mode.from_tensor(torch.ones(6, 8), symbolic_context=context, source=ConstantSource("x")).shape
    for size in (rows, rows * columns, (rows - 1) // 2 + 1, 2 * rows * ((columns + 3) // 4)):
        for number in range(-1, 3):
            with fast_comparisons():
                answer = compare(size, number)
            if isinstance(answer, bool):
                assert answer is bool(compare(size, number)), (size, number)
        with fast_comparisons():
            assert isinstance(compare(size, 0), bool)
    assert not mode.shape_env.guards
