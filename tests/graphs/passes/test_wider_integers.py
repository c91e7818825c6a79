"""Integers of a dtype that an operator lacks are computed in a wider dtype, with the same bits."""

import numpy as np
import onnx_ir
import pytest
from small_graphs import run_unoptimized

from onnxfn.graphs.passes.simplify import WIDER, widen_integers

BINARY = {"Max": np.maximum, "Min": np.minimum, "MatMul": lambda a, b: np.matmul(a.astype("int64"), b.astype("int64"))}


def graph_of(operator, dtype):
    """A graph with one operator of two matrices."""
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
