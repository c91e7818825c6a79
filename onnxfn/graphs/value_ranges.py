"""The pass that makes the ranges of values the outputs of a graph."""

from collections.abc import Collection
from typing import Any

FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")
"""The names of the dtypes of values that have ranges."""

REDUCTIONS = ("ReduceMin", "ReduceMax")
"""The operators whose outputs are the least and the largest element of a value."""


def range_outputs(model: Any, names: Collection[str] | None = None, outside: float = 0) -> tuple[str, ...]:
    """Makes ranges of float values, but the share `outside`, a graph's only outputs; returns the values' names."""
    import onnx_ir

    graph = model.graph
    computed = [value for node in graph for value in node.outputs if value.name and value.dtype is not None]
    values = [each for each in computed if each.dtype.name in FLOATS and (names is None or each.name in names)]
    graph.outputs.clear()
    for value in values:
        # Right after the node, so that ONNX Runtime needs not keep the value.
        nodes = [_quantile(value, operator, outside) for operator in REDUCTIONS]
        graph.insert_after(value.producer(), [node for each in nodes for node in each])
        for reduction in (each[-1] for each in nodes):
            output = reduction.outputs[0]
            output.type, output.shape = value.type, onnx_ir.Shape([])
            output.name = f"{value.name}.{reduction.op_type}"
            graph.outputs.append(output)
    return tuple(value.name for value in values)


def _quantile(value: Any, operator: str, outside: float) -> list[Any]:
    """The nodes from a value to its least or largest element, or to the one that has a share of them beyond it."""
    import onnx_ir

    if not outside:
        return [onnx_ir.node(operator, [value], attributes={"keepdims": 0})]
    nodes, dtypes = list[Any](), onnx_ir.DataType

    def node(operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        nodes.append(onnx_ir.node(operator, list(inputs), attributes=attributes, num_outputs=outputs))
        return nodes[-1].outputs[0]

    row = node("Constant", value_ints=[-1])
    count = node("Mul", node("Cast", node("Size", value), to=dtypes.FLOAT), node("Constant", value_float=outside))
    count = node("Reshape", node("Cast", node("Ceil", count), to=dtypes.INT64), row)
    largest = int(operator == "ReduceMax")
    ends = node("TopK", node("Reshape", value, row), count, outputs=2, largest=largest)
    node(REDUCTIONS[1 - largest], ends, keepdims=0)
    return nodes
