"""A graph is simplified as by the rules of onnxscript, and has no operator that ONNX lacks for a dtype."""

import numpy as np
import onnx_ir
import pytest
from graph_equality import first_difference
from small_graphs import graph_from_text, graph_text, noise, operators, run_unoptimized

from onnxfn.graphs.nodes.nodes import pass_errors
from onnxfn.graphs.passes import simplify as module
from onnxfn.graphs.passes.simplify import WIDER, simplify, widen_integers
from onnxfn.specs.errors import CaptureFailed

TEXT = graph_text("simplify.TEXT")


def test_each_rule_has_an_operator_that_it_begins_with():
    for rule in module._rules():
        assert rule._target_pattern.output_node.op_identifier() is not None, rule
        assert "try_rewrite" in vars(rule), rule


def test_a_graph_is_simplified_as_by_the_rules_themselves(monkeypatch):
    x = noise(2, 3, 4)
    expected = run_unoptimized(graph_from_text(TEXT), x=x)
    quick = simplify(graph_from_text(TEXT))
    monkeypatch.setattr(module, "_only_for_its_operator", lambda rule: rule)
    assert first_difference(quick, simplify(graph_from_text(TEXT))) is None
    assert operators(quick).count("Clip") == 1
    assert len(operators(quick)) < len(operators(graph_from_text(TEXT)))
    for output, expected_output in zip(run_unoptimized(quick, x=x), expected, strict=True):
        np.testing.assert_array_equal(output, expected_output)


def test_an_error_names_the_step_and_its_first_line():
    with (
        pytest.raises(CaptureFailed, match=r"^the simplification failed: KeyError: 'no such value'$") as caught,
        pass_errors("the simplification"),
    ):
        raise KeyError("no such value")
    assert type(caught.value.__cause__) is KeyError


# Integers of a dtype that an operator lacks

BINARY = {"Max": np.maximum, "Min": np.minimum, "MatMul": lambda a, b: np.matmul(a.astype("int64"), b.astype("int64"))}


def graph_of(operator, dtype):
    kind = onnx_ir.TensorType(onnx_ir.DataType[dtype])
    inputs = [onnx_ir.Value(name=name, type=kind, shape=onnx_ir.Shape([3, 3])) for name in "ab"]
    node = onnx_ir.node(operator, inputs)
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "c", kind, onnx_ir.Shape([3, 3])
    graph = onnx_ir.Graph(inputs, node.outputs, nodes=[node], opset_imports={"": 18}, name="graph")
    return onnx_ir.Model(graph, ir_version=10)


CASES = [(operator, dtype) for operator in BINARY for dtype in WIDER[operator]]


@pytest.mark.parametrize(("operator", "dtype"), CASES)
def test_an_operator_gives_what_its_own_dtype_would_give(operator, dtype):
    limits = np.iinfo(dtype.lower())
    random = np.random.default_rng(0)
    a, b = (random.integers(limits.min, limits.max, (3, 3), dtype=dtype.lower(), endpoint=True) for _ in "ab")
    with np.errstate(over="ignore"):
        expected = BINARY[operator](a, b).astype(a.dtype)
    (actual,) = run_unoptimized(widen_integers(graph_of(operator, dtype)), a=a, b=b)
    assert actual.dtype == a.dtype
    assert (actual == expected).all()


@pytest.mark.parametrize(("operator", "dtype"), [("Max", "INT32"), ("Max", "FLOAT"), ("MatMul", "INT64")])
def test_an_operator_that_has_the_dtype_stays(operator, dtype):
    model = widen_integers(graph_of(operator, dtype))
    assert [node.op_type for node in model.graph] == [operator]
