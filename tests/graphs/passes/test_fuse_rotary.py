import pytest
from small_graphs import fused_graph, graph_text, noise, operators

# x is an input of the graph. Its batch size is dynamic, and the tables have no batch.
HALVES = graph_text("rotary.HALVES")
BACKWARDS = HALVES.replace("minus = Neg (second)", "minus = Neg (first)").replace("(minus, first)", "(second, minus)")
PAIRS = graph_text("rotary.PAIRS")
DIFFERENCE = graph_text("rotary.DIFFERENCE")
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
    assert "RotaryEmbedding" not in operators(fused_graph(text, unknown_shapes=unknown_shapes, **feeds))


def test_a_rotation_whose_output_has_an_unknown_shape_is_fused():
    assert "RotaryEmbedding" in operators(fused_graph(HALVES, unknown_shapes=("y",), **FEEDS))


def test_a_slice_without_axes_is_not_half_of_a_tensor():
    text = HALVES.replace("[b,4,s,8]", "[8]").replace("[s,4]", "[4]").replace(", last)", ")")
    assert "RotaryEmbedding" not in operators(fused_graph(text, x=noise(8), angles=noise(4, seed=1)))
