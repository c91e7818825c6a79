"""The pass that makes the ranges of values the outputs of a graph."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")
"""The names of the dtypes of values that have ranges."""

REDUCTIONS = ("ReduceMin", "ReduceMax")
"""The operators whose outputs are the least and the largest element of a value."""


def range_outputs(model: Any, names: Collection[str] | None = None) -> tuple[str, ...]:
    """Makes the ranges of computed float values the outputs of a graph; returns the names of the values.

    Before: a graph of opset 18 or later, whose values have types. `names`: the values; None is all of them. Values
    in the branches of an If and in the bodies of loops are not among them.
    After: the graph has two scalar outputs for each value, in the order of the values: its least and its largest
    element. They have the dtype of the value. The outputs that the graph had are not outputs any more.
    """
    import onnx_ir

    graph = model.graph
    computed = [value for node in graph for value in node.outputs if value.name and value.dtype is not None]
    values = [each for each in computed if each.dtype.name in FLOATS and (names is None or each.name in names)]
    graph.outputs.clear()
    for value in values:
        # Right after the node, so that ONNX Runtime needs not keep the value.
        reductions = [onnx_ir.node(operator, [value], attributes={"keepdims": 0}) for operator in REDUCTIONS]
        graph.insert_after(value.producer(), reductions)
        for reduction in reductions:
            output = reduction.outputs[0]
            output.type, output.shape = value.type, onnx_ir.Shape([])
            output.name = f"{value.name}.{reduction.op_type}"
            graph.outputs.append(output)
    return tuple(value.name for value in values)
