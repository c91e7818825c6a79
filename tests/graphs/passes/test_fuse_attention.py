import numpy as np
import onnx_ir
import pytest
from small_graphs import fused_graph, graph_from_text, graph_text, noise, operators, run_unoptimized

from onnxfn.graphs.fusions.fusing import fuse_operators, fusions
from onnxfn.specs.stored.reports import Fusion

# A boolean mask as torch uses it: the output of a query that sees no key is set to zero.
BOOLEAN_MASK = graph_text("attention.BOOLEAN_MASK")
# Two masks that are added, and a softcap.
ADDED_MASKS = graph_text("attention.ADDED_MASKS")
# Three query heads share a key head, and a past comes before the new keys.
GROUPED = graph_text("attention.GROUPED")
# One mask for all queries.
KEY_MASK = graph_text("attention.KEY_MASK")


def tensors(batch=2, queries=4, keys=5):
    return {
        "q": noise(batch, 6, queries, 8),
        "k": noise(batch, 6, keys, 8, seed=1),
        "v": noise(batch, 6, keys, 8, seed=2),
    }


def grouped_tensors(batch, past):
    new = {"q": noise(batch, 4, 48), "k": noise(batch, 4, 16, seed=1), "v": noise(batch, 4, 16, seed=2)}
    return {**new, "pk": noise(batch, 2, past, 8, seed=3), "pv": noise(batch, 2, past, 8, seed=4)}


def boolean_mask():
    """A mask `[3, 1, 4, 5]` that hides all keys from one query."""
    mask = np.random.default_rng(0).random((3, 1, 4, 5)) < 0.6
    mask[1, 0, 2] = False
    return mask


def test_a_query_that_sees_no_key_gives_zero_with_a_boolean_mask():
    feeds = {**tensors(batch=3), "m": boolean_mask()}
    model = fused_graph(BOOLEAN_MASK, **feeds)
    assert operators(model) == ["Attention"]
    assert not run_unoptimized(model, **feeds)[0][1, :, 2].any()


def test_a_query_that_sees_no_key_gives_the_mean_of_the_values_with_an_added_mask():
    mask = np.ones((2, 1, 1, 5), bool)
    mask[1] = False
    feeds = {**tensors(), "m": mask, "p": noise(1, 6, 4, 5)}
    model = fused_graph(ADDED_MASKS, **feeds)
    assert fusions(model) == (Fusion("Attention", 1),)
    mean = feeds["v"][1].mean(axis=1)
    np.testing.assert_allclose(run_unoptimized(model, **feeds)[0][1, :, 0], mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("for_cpu", [False, True])
def test_the_weight_of_a_hidden_key_is_a_normal_number_in_a_graph_for_processors(for_cpu):
    feeds = {"scores": 90 * noise(2, 3, 4, 7), "positions": np.array([[3], [4], [-1], [6]]), "others": np.arange(7)}
    graph = fused_graph(graph_text("attention.CAUSAL_MASK"), for_cpu=for_cpu, **feeds)  # one query sees no key
    (weights,) = run_unoptimized(graph, **feeds)
    assert (weights.min() > np.finfo(np.float32).tiny) == for_cpu
    np.testing.assert_array_equal(weights[:, :, 2], np.float32(1 / 7))


@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("batch", [1, 3])
def test_grouped_heads_read_their_keys_and_the_past_comes_first(past, batch):
    model = fused_graph(GROUPED, **grouped_tensors(batch, past))
    (node,) = (node for node in model.graph if node.op_type == "Attention")
    assert [value.name for value in node.inputs if value is not None] == ["qh", "kh", "vh", "pk", "pv"]
    assert [value.name for value in model.graph.outputs] == ["y", "nk", "nv"]


def test_a_mask_of_two_axes_for_all_queries_is_expanded():
    assert fusions(fused_graph(KEY_MASK, **tensors(), m=noise(1, 5, seed=3))) == (Fusion("Attention", 1),)


def test_a_length_of_unknown_size_is_read_from_the_queries():
    feeds = {**tensors(), "m": noise(1, 5, seed=3)}
    model = graph_from_text(KEY_MASK)
    sizes = {"q": ["b", 6, None, 8], "k": ["b", 6, None, 8], "y": ["b", 6, None, 8], "transposed": ["b", 6, 8, None]}
    for value in (*model.graph.inputs, *(output for node in model.graph for output in node.outputs)):
        value.shape = onnx_ir.Shape(sizes[value.name]) if value.name in sizes else value.shape
    expected = run_unoptimized(model, **feeds)[0]
    fused = fuse_operators(model)
    assert fusions(fused) == (Fusion("Attention", 1),)
    np.testing.assert_allclose(run_unoptimized(fused, **feeds)[0], expected, rtol=1e-5, atol=1e-6)


NOT_FUSED = (
    "a transpose that reverses all axes",
    "keys that all heads share, and values of each head",
    "a division by zero",
)


@pytest.mark.parametrize("name", NOT_FUSED)
def test_what_is_no_attention_is_not_fused(name):
    assert fusions(fuse_operators(graph_from_text(graph_text(f"attention: {name}")))) == ()


@pytest.mark.parametrize("unknown_shapes", [("pk", "pv"), ("kh", "vh"), ("pk",)])
def test_a_past_of_unknown_shape_is_joined_before_the_attention(unknown_shapes):
    assert "Concat" in operators(fused_graph(GROUPED, unknown_shapes=unknown_shapes, **grouped_tensors(2, 5)))


@pytest.mark.parametrize("name", ["q", "transposed", "bias", "sum", "y", "m"])
def test_an_attention_with_one_unknown_shape_computes_the_same(name):
    fused_graph(BOOLEAN_MASK, unknown_shapes=(name,), **tensors(batch=3), m=boolean_mask())


@pytest.mark.parametrize("name", ["qh", "q4", "kh", "k4", "nk", "k5", "ke", "kr", "transposed", "sum", "back", "y"])
def test_a_grouped_attention_with_one_unknown_shape_computes_the_same(name):
    fused_graph(GROUPED, unknown_shapes=(name,), **grouped_tensors(2, 5))


@pytest.mark.parametrize("unknown", [(), ("qh",), ("kr",), ("transposed",), ("scores",), ("sum",)])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_below_opset_23_grouped_heads_are_multiplied_before_they_are_repeated(is_scaled, unknown):
    text = GROUPED.replace("int64[1] two", "float half = {0.5}, int64[1] two")
    if is_scaled:
        text = text.replace("(q4)", "(q4)\n    qs = Mul (qh, half)").replace("MatMul (qh", "MatMul (qs")
    assert unknown or "Expand" not in operators(fused_graph(text, 18, unknown, **grouped_tensors(2, 5)))
