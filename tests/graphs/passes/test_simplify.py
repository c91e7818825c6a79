"""The rules of onnxscript, each tried on the nodes of its operator alone, simplify a graph as they do themselves."""

import numpy as np
from graph_equality import first_difference
from small_graphs import graph_from_text, noise, operators, run_unoptimized

from onnxfn.graphs.passes import simplify as module
from onnxfn.graphs.passes.simplify import simplify

TEXT = """
pairs (float[a, 3, 4] x) => (float[a, 3, 4] clipped, float[a, 3, 4] turned, float[b, 12] rows12, float[1, a, 3, 4] y)
<float low = {0.5}, float high = {2.0}, int64[2] rows = {-1, 12}, int64[2] more = {-1, 6}, int64[1] zero = {0}>
{
    at_least = Max (x, low)
    clipped = Min (at_least, high)
    once = Transpose <perm = [0, 2, 1]> (x)
    turned = Transpose <perm = [0, 2, 1]> (once)
    sixes = Reshape (x, more)
    rows12 = Reshape (sixes, rows)
    double = Cast <to = 11> (x)
    same = Cast <to = 1> (double)
    positive = Relu (same)
    again = Relu (positive)
    y = Unsqueeze (again, zero)
}"""


def test_each_rule_has_an_operator_that_it_begins_with():
    for rule in module._rules():
        assert rule._target_pattern.output_node.op_identifier() is not None, rule
        assert "try_rewrite" in vars(rule), rule


def test_a_graph_is_simplified_as_by_the_rules_themselves(monkeypatch):
    x = noise(2, 3, 4)
    expected = run_unoptimized(graph_from_text(TEXT), x=x)
    quick = simplify(graph_from_text(TEXT))
    monkeypatch.setattr(module, "_only_for_its_operator", lambda rule: rule)
    slow = simplify(graph_from_text(TEXT))
    assert first_difference(quick, slow) is None
    assert operators(quick).count("Clip") == 1
    assert len(operators(quick)) < len(operators(graph_from_text(TEXT)))
    for output, expected_output in zip(run_unoptimized(quick, x=x), expected, strict=True):
        np.testing.assert_array_equal(output, expected_output)
