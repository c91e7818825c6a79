"""GELU is fused, in graphs written by hand."""

from __future__ import annotations

import pytest
from small_graphs import fused_graph, graph_from_text, noise, operators

from onnxfn.graphs.fusions.gelu import fuse_gelu

ERF = """
gelu (float[n] x) => (float[n] y) <float root = {1.4142135}, float one = {1.0}, float half = {0.5}> {
    inner = Div (x, root)
    erf = Erf (inner)
    total = Add (erf, one)
    product = Mul (x, total)
    y = Mul (product, half)
}"""
HALF_FIRST = ERF.replace("product = Mul (x, total)", "part = Mul (x, half)\n product = Mul (part, total)").replace(
    "y = Mul (product, half)", "y = Identity (product)"
)
TANH = """
gelu (float[n] x) => (float[n] y)
<float factor = {0.7978845608}, float coefficient = {0.044715}, float one = {1.0}, float half = {0.5},
 float three = {3.0}>
{
    cube = Pow (x, three)
    share = Mul (cube, coefficient)
    sum = Add (x, share)
    inner = Mul (sum, factor)
    tanh = Tanh (inner)
    total = Add (one, tanh)
    part = Mul (x, half)
    y = Mul (part, total)
}"""
TANH_OF_PRODUCTS = TANH.replace("cube = Pow (x, three)", "square = Mul (x, x)\n cube = Mul (square, x)")


@pytest.mark.parametrize(
    ("text", "approximate"),
    [(ERF, "none"), (HALF_FIRST, "none"), (TANH, "tanh"), (TANH_OF_PRODUCTS, "tanh")],
    ids=["erf", "half first", "tanh", "tanh of products"],
)
def test_a_gelu_is_one_operator_from_opset_20_on(text, approximate):
    model = fused_graph(text, opset=20, x=noise(9))
    (node,) = (node for node in model.graph if node.op_type == "Gelu")
    assert node.attributes["approximate"].value == approximate
    assert "Gelu" not in operators(fused_graph(text, opset=18, x=noise(9)))


@pytest.mark.parametrize(
    "text",
    [
        ERF.replace("half = {0.5}", "half = {0.25}"),
        ERF.replace("one = {1.0}", "one = {2.0}"),
        ERF.replace("root = {1.4142135}", "root = {0.0}"),
        TANH.replace("three = {3.0}", "three = {2.0}"),
        TANH.replace("coefficient = {0.044715}", "coefficient = {0.05}"),
    ],
    ids=["a quarter", "plus two", "divided by zero", "a square", "another coefficient"],
)
def test_what_is_almost_a_gelu_is_not_fused(text):
    assert "Gelu" not in operators(fused_graph(text, opset=20, x=noise(9)))


def test_a_gelu_of_unknown_dtype_is_not_fused():
    model = graph_from_text(ERF, opset=20)
    model.graph.inputs[0].type = None
    assert "Gelu" not in operators(fuse_gelu(model))


def test_a_gelu_whose_output_has_an_unknown_shape_is_fused():
    assert operators(fused_graph(ERF, opset=20, unknown_shapes=("y",), x=noise(9))) == ["Gelu"]
