"""Rotary embeddings are fused, in graphs written by hand."""

import pytest
from small_graphs import fused_graph, noise, operators

# x is an input of the graph. Its batch size is dynamic, and the tables have no batch.
HALVES = """
rotates (float[b,4,s,8] x, float[s,4] angles) => (float[b,4,s,8] y)
<int64[1] zero = {0}, int64[1] half = {4}, int64[1] full = {8}, int64[1] last = {3}> {
    twice = Concat <axis = -1> (angles, angles)
    cos = Cos (twice)
    sin = Sin (twice)
    first = Slice (x, zero, half, last)
    second = Slice (x, half, full, last)
    minus = Neg (second)
    turned = Concat <axis = -1> (minus, first)
    by_cos = Mul (x, cos)
    by_sin = Mul (turned, sin)
    y = Add (by_cos, by_sin)
}"""
BACKWARDS = HALVES.replace("minus = Neg (second)", "minus = Neg (first)").replace("(minus, first)", "(second, minus)")
PAIRS = """
rotates (float[b,4,s,8] x, float[s,4] angles) => (float[b,4,s,8] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] full = {8}, int64[1] last = {3},
 int64[1] end = {-1}, int64[3] times = {1, 1, 2}, int64[2] merged = {0, 8}, int64[4] flat = {0, 0, 0, 8}> {
    lifted = Unsqueeze (angles, end)
    spread = Expand (lifted, times)
    twice = Reshape (spread, merged)
    cos = Cos (twice)
    sin = Sin (twice)
    even = Slice (x, zero, full, last, two)
    odd = Slice (x, one, full, last, two)
    minus = Neg (odd)
    minus_lifted = Unsqueeze (minus, end)
    even_lifted = Unsqueeze (even, end)
    stacked = Concat <axis = -1> (minus_lifted, even_lifted)
    turned = Reshape (stacked, flat)
    by_cos = Mul (x, cos)
    by_sin = Mul (turned, sin)
    y = Add (by_cos, by_sin)
}"""
DIFFERENCE = """
rotates (float[b,4,s,4] first, float[b,4,s,4] second, float[s,4] angles) => (float[b,4,s,8] y) {
    cos = Cos (angles)
    sin = Sin (angles)
    first_cos = Mul (first, cos)
    second_sin = Mul (second, sin)
    left = Sub (first_cos, second_sin)
    second_cos = Mul (second, cos)
    first_sin = Mul (first, sin)
    right = Add (second_cos, first_sin)
    y = Concat <axis = -1> (left, right)
}"""
FEEDS = {"x": noise(3, 4, 5, 8), "angles": noise(5, 4, seed=1)}
HALF_FEEDS = {"first": noise(3, 4, 5, 4), "second": noise(3, 4, 5, 4, seed=2), "angles": noise(5, 4, seed=1)}


def rotary_node(model):
    (node,) = (node for node in model.graph if node.op_type == "RotaryEmbedding")
    return node


@pytest.mark.parametrize(
    ("text", "interleaved"), [(HALVES, 0), (BACKWARDS, 0), (PAIRS, 1)], ids=["halves", "backwards", "pairs"]
)
def test_a_rotation_of_an_input_of_the_graph_is_one_operator(text, interleaved):
    model = fused_graph(text, **FEEDS)
    node = rotary_node(model)
    assert node.inputs[0].name == "x"
    assert node.attributes["interleaved"].value == interleaved
    assert not {"Mul", "Sub", "Add"} & set(operators(model))


def test_a_rotation_of_two_inputs_of_the_graph_is_one_operator():
    model = fused_graph(DIFFERENCE, **HALF_FEEDS)
    assert [value.name for value in rotary_node(model).inputs[0].producer().inputs] == ["first", "second"]
    assert not {"Mul", "Sub", "Add"} & set(operators(model))


@pytest.mark.parametrize(
    ("text", "feeds", "unknown_shapes"),
    [
        (HALVES, FEEDS, ("turned",)),
        (HALVES, FEEDS, ("x",)),
        (HALVES, FEEDS, ("twice", "cos", "sin")),
        (PAIRS, FEEDS, ("turned",)),
        (PAIRS, FEEDS, ("lifted", "angles")),
        (PAIRS, FEEDS, ("stacked",)),
        (DIFFERENCE, HALF_FEEDS, ("y",)),
        (DIFFERENCE, HALF_FEEDS, ("first",)),
    ],
)
def test_a_rotation_with_unknown_shapes_is_not_fused(text, feeds, unknown_shapes):
    model = fused_graph(text, unknown_shapes=unknown_shapes, **feeds)
    assert "RotaryEmbedding" not in operators(model)


def test_a_rotation_whose_output_has_an_unknown_shape_is_fused():
    assert "RotaryEmbedding" in operators(fused_graph(HALVES, unknown_shapes=("y",), **FEEDS))


def test_a_slice_without_axes_is_not_half_of_a_tensor():
    text = HALVES.replace("[b,4,s,8]", "[8]").replace("[s,4]", "[4]").replace(", last)", ")")
    model = fused_graph(text, x=noise(8), angles=noise(4, seed=1))
    assert "RotaryEmbedding" not in operators(model)
