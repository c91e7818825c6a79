"""The pass that joins two graphs of one part: one where a condition on sizes is true, the other elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.passes.merging import adopt, as_branch
from onnxfn.specs.conditions import Condition, symbols_of
from onnxfn.specs.errors import CaptureFailed

OPERATORS: Mapping[type, str] = MappingProxyType(
    {
        ast.Add: "Add",
        ast.Sub: "Sub",
        ast.Mult: "Mul",
        ast.Mod: "Mod",
        ast.Pow: "Pow",
        ast.Eq: "Equal",
        ast.Lt: "Less",
        ast.LtE: "LessOrEqual",
        ast.Gt: "Greater",
        ast.GtE: "GreaterOrEqual",
        ast.And: "And",
        ast.Or: "Or",
        ast.USub: "Neg",
        ast.Not: "Not",
    }
)
"""The operators of conditions that ONNX has for whole numbers, with the same results."""


def insert_branches(model: Any, other: Any, condition: Condition, axes: Mapping[str, tuple[str, int]]) -> Any:
    """Joins two graphs: the first runs where a condition on sizes is true, the other elsewhere.

    Before: inputs and outputs of both graphs have the names of the plan. `axes`: an input, and the number of its axis,
    for each axis in the condition.
    After: the graph is an If, with the nodes of the two graphs as its branches; inputs and outputs are unchanged. The
    weights of both are initializers of the graph; shared weights are duplicates until `merge_slots` merges them. The
    other graph cannot be used again.

    CaptureFailed if the condition has an operator that ONNX does not have for whole numbers.
    """
    import onnx_ir
    from onnx_ir.tape import Tape

    graph, tape = model.graph, Tape()
    inputs = {value.name: value for value in graph.inputs}
    sizes = {name: (inputs[axes[name][0]], axes[name][1]) for name in symbols_of(condition.text)}
    is_true = _value(tape, ast.parse(condition.text, mode="eval").body, sizes)
    adopt(model, other, "other.")
    outputs = [onnx_ir.val(value.name, type=value.type, shape=value.shape) for value in graph.outputs]
    branches = {"then_branch": as_branch(graph, "where."), "else_branch": as_branch(other.graph, "other.")}
    graph.extend([*tape.nodes, onnx_ir.node("If", [is_true], attributes=branches, outputs=outputs)])
    graph.outputs.extend(outputs)
    return model


def _value(tape: Any, node: Any, sizes: Mapping[str, tuple[Any, int]]) -> Any:
    """The value of a node of a syntax tree, as an output of nodes that are put on the tape; it has one element."""
    match node:
        case ast.Constant(int(number)):
            return tape.op("Constant", [], {"value_ints": [number]})
        case ast.Name(name):
            value, axis = sizes[name]
            return tape.op("Shape", [value], {"start": axis, "end": axis + 1})
    operator, operands = _operation(node)
    return tape.op(operator, [_value(tape, each, sizes) for each in operands])


def _operation(node: Any) -> tuple[str, list[Any]]:
    """The operator of ONNX for a node of a syntax tree, and its operands, which are nodes, too."""
    match node:
        case ast.BinOp(left, ast.FloorDiv(), right):  # ONNX rounds a quotient to 0
            return "Div", [ast.BinOp(left, ast.Sub(), ast.BinOp(left, ast.Mod(), right)), right]
        case ast.Compare(left, [ast.NotEq()], [right]):
            return "Not", [ast.Compare(left, [ast.Eq()], [right])]
        case ast.Call(ast.Name("max" | "min" as name), operands):
            return name.capitalize(), operands
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) | ast.BoolOp(sign, [left, right]):
            operands = [left, right]
        case ast.UnaryOp(sign, operand):
            operands = [operand]
        case _:
            sign, operands = node, []
    if type(sign) not in OPERATORS:
        raise CaptureFailed(f"the condition has {type(sign).__name__}, which ONNX does not have for whole numbers")
    return OPERATORS[type(sign)], operands
