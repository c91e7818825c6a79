"""A tensor is expanded for no operator that broadcasts it; the graph computes the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import graph_from_text, graph_text, noise, run_unoptimized

from onnxfn.graphs.fusions.fusing import drop_expands

# A mask as a model expands it to all heads, before it is inverted and cast.
MASK = graph_text("expands.MASK")


def changed(*pairs):
    text = MASK
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def after(text, **feeds):
    """The shapes of the values that a graph reads after the pass; its outputs are as before."""
    model = graph_from_text(text, opset=18)
    expected = run_unoptimized(model, **feeds)
    without = drop_expands(model)
    for before, now in zip(expected, run_unoptimized(without, **feeds), strict=True):
        assert before.dtype == now.dtype
        assert np.array_equal(before, now)
    values = {value.name: value for node in without.graph for value in node.outputs}
    names = [name for name, value in values.items() if value.shape is not None and value.uses()]
    return {name: tuple(map(str, values[name].shape)) for name in names}


FEEDS = {"mask": noise(2, 1, 3, 5) > 0, "scores": noise(2, 4, 3, 5, seed=1)}


def test_a_mask_is_inverted_and_cast_before_it_is_broadcast():
    shapes = after(MASK, **FEEDS)
    assert "expanded" not in shapes
    assert shapes["added"] == ("batch", "1", "3", "5")


@pytest.mark.parametrize(
    "pairs",
    [
        # Nothing else has the expanded size.
        [("float[batch, 4, 3, 5] scores", "float[batch, 1, 3, 5] scores")],
        # The expanded tensor is an output.
        [("=> (float[batch, 4, 3, 5] y)", "=> (float[batch, 4, 3, 5] y, bool[batch, 4, 3, 5] expanded)")],
        [("=> (float[batch, 4, 3, 5] y)", "=> (float[batch, 4, 3, 5] y, float[batch, 4, 3, 5] added)")],
        # An operator that does not broadcast reads it.
        [("number = Cast <to = 1> (expanded)", "first = Cast <to = 1> (expanded)\n    number = Softmax (first)")],
        # The size is not known.
        [("bool[batch, 1, 3, 5]", "bool[batch, heads, 3, 5]")],
    ],
)
def test_an_expand_stays_where_its_size_matters(pairs):
    text = changed(*pairs)
    feeds = FEEDS | ({"scores": noise(2, 1, 3, 5)} if "float[batch, 1, 3, 5] scores" in text else {})
    assert "4" in after(text, **feeds)["expanded"]


def test_two_expanded_tensors_that_are_added_lose_one_of_both():
    assert sorted(after(graph_text("expands.SUMS"), a=noise(3, 1), b=noise(3, 1, seed=1))) == ["wide_b"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["Add", "Mul", "Sub"]), st.integers(0, 9), st.integers(0, 9)), max_size=6),
    st.sampled_from([(1, 3), (2, 1), (1, 1)]),
    st.sampled_from([(2, 3), (1, 3), (2, 1)]),
)
def test_any_graph_of_elementwise_operators_computes_the_same(steps, small, other):
    lines, names = ["v0 = Expand (a, sizes)"], ["v0", "a", "b"]
    for number, (operator, left, right) in enumerate(steps, start=1):
        lines.append(f"v{number} = {operator} ({names[left % len(names)]}, {names[right % len(names)]})")
        names.append(f"v{number}")
    lines.append(f"y = Add (v{len(steps)}, v0)")
    header = f"any (float[{small[0]}, {small[1]}] a, float[{other[0]}, {other[1]}] b) => (float[2, 3] y)"
    text = f"{header}\n<int64[2] sizes = {{2, 3}}>\n{{\n" + "\n".join(lines) + "\n}"
    after(text, a=noise(*small), b=noise(*other, seed=1))
