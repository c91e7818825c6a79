"""The passes that join two graphs by an If: one computes empty inputs, or each is for one side of a condition."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.nodes.nodes import is_operator, replace_value, shape_of
from onnxfn.specs.conditions import Condition, symbols_of
from onnxfn.specs.errors import CaptureFailed

PREFIX = "filler."
"""The prefix of the names that values and nodes of the filler have in the graph."""


def insert_filler(model: Any, filler: Any, fills: Mapping[str, str]) -> Any:
    """Inserts a graph that computes inputs of another graph when they are empty.

    Before: inputs and outputs of both graphs have the names of the plan. Each output of the filler computes an input of
    the model (`fills`), and each input of the filler is also an input of the model.
    After: the graph begins with an If. If the first of the filled inputs has no elements, it runs the filler; else it
    passes these inputs on. Shared weights are duplicates until `merge_slots`. CaptureFailed if ports do not correspond.
    """
    import onnx_ir
    from onnx_ir.tape import Tape

    inputs, tape = {value.name: value for value in model.graph.inputs}, Tape()
    _check_names("outputs", [fills.get(value.name, value.name) for value in filler.graph.outputs], inputs)
    _check_names("inputs", [value.name for value in filler.graph.inputs], inputs)
    filled = [inputs[fills.get(value.name, value.name)] for value in filler.graph.outputs]
    adopt(model, filler, PREFIX)
    chosen = [onnx_ir.val(f"{value.name}__filled", type=value.type, shape=value.shape) for value in filled]
    for value, output in zip(filled, chosen, strict=True):
        value.replace_all_uses_with(output)
    branches = {"then_branch": as_branch(filler.graph, PREFIX), "else_branch": _identity_branch(filled)}
    # One Size node instead of Shape and ReduceProd would do. But ONNX Runtime has no Size for float16 on a CPU: it
    # casts the tensor, and then uses that empty buffer for another tensor of the same symbolic shape.
    size = tape.op("ReduceProd", [tape.op("Shape", [filled[0]])], {"keepdims": 0})
    is_empty = tape.op("Equal", [size, tape.op("Constant", [], {"value_int": 0})])
    branch = onnx_ir.node("If", [is_empty], attributes=branches, outputs=chosen)
    model.graph.insert_before(model.graph[0], [*tape.nodes, branch])
    for output in chosen:  # is an output of the graph itself where an Identity of it was: ONNX Runtime would copy it
        copies = [use.node for use in output.uses() if is_operator(use.node, "Identity")]
        for copy in [node for node in copies if node.outputs[0].is_graph_output()][:1]:
            output.shape = copy.outputs[0].shape
            replace_value(copy.outputs[0], output)
            copy.graph.remove(copy, safe=True)
    return model


def insert_branches(model: Any, other: Any, condition: Condition, axes: Mapping[str, tuple[str, int]]) -> Any:
    """Joins two graphs: the first runs where a condition on sizes is true, the other elsewhere.

    Before: inputs and outputs of both graphs have the names of the plan. `axes`: an input, and the number of its axis,
    for each axis in the condition.
    After: the graph is an If, with the nodes of the two graphs as its branches. Shared weights are duplicates until
    `merge_slots`. CaptureFailed if the condition has an operator that ONNX does not have for whole numbers, or an
    output has other fixed sizes on the other side.
    """
    import onnx_ir
    from onnx_ir.tape import Tape

    graph, tape = model.graph, Tape()
    for value, elsewhere in zip(graph.outputs, other.graph.outputs, strict=True):
        pairs = zip(shape_of(value), shape_of(elsewhere), strict=False)
        if len(value.shape) != len(elsewhere.shape) or any(isinstance(a, int) and a != b for a, b in pairs):
            raise CaptureFailed(f"{value.name} has another shape where {condition.text} is false")
    inputs = {value.name: value for value in graph.inputs}
    sizes = {name: (inputs[axes[name][0]], axes[name][1]) for name in symbols_of(condition.text)}
    is_true = _value(tape, ast.parse(condition.text, mode="eval").body, sizes)
    adopt(model, other, "other.")
    outputs = [onnx_ir.val(value.name, type=value.type, shape=value.shape) for value in graph.outputs]
    branches = {"then_branch": as_branch(graph, "where."), "else_branch": as_branch(other.graph, "other.")}
    graph.extend([*tape.nodes, onnx_ir.node("If", [is_true], attributes=branches, outputs=outputs)])
    graph.outputs.extend(outputs)
    return model


def adopt(model: Any, other: Any, prefix: str) -> None:
    """Gives the initializers and functions of another graph to a graph; a name that the graph has gets the prefix."""
    inputs = {value.name: value for value in model.graph.inputs}
    for value in other.graph.inputs:
        value.replace_all_uses_with(inputs[value.name])
    names = {*model.graph.initializers, *(value.name for node in model.graph.all_nodes() for value in node.outputs)}
    for name, value in list(other.graph.initializers.items()):
        del other.graph.initializers[name]
        value.name = f"{prefix}{name}" if name in names else name
        model.graph.initializers.add(value)
    model.opset_imports.update({**other.opset_imports, **model.opset_imports})
    model.functions.update(other.functions)


def _check_names(side: str, names: Iterable[str], inputs: Mapping[str, Any]) -> None:
    if unknown := [name for name in names if name not in inputs]:
        raise CaptureFailed(
            f"the {side} of the filler must be inputs of the graph; unknown: {', '.join(unknown)}; "
            f"known: {', '.join(inputs)}"
        )


def as_branch(graph: Any, prefix: str) -> Any:
    """The nodes and outputs of a graph, taken out of it, as a branch; their names get the prefix."""
    import onnx_ir

    nodes, outputs = list(graph), list(graph.outputs)
    graph.outputs.clear()
    graph.remove(nodes)
    for node in nodes:
        for value in node.outputs:
            value.name = f"{prefix}{value.name}"
    return onnx_ir.Graph([], outputs, nodes=nodes, name=prefix.rstrip("."))


def _identity_branch(values: Sequence[Any]) -> Any:
    """A branch that outputs these values."""
    import onnx_ir

    passed = [onnx_ir.val(f"{value.name}__passed", type=value.type, shape=value.shape) for value in values]
    nodes = [onnx_ir.node("Identity", [value], outputs=[output]) for value, output in zip(values, passed, strict=True)]
    return onnx_ir.Graph([], passed, nodes=nodes, name="passed")


OPERATORS: Mapping[str, str] = MappingProxyType(
    {name: name for name in ("Add", "Sub", "Mod", "Pow", "And", "Or", "Not")}
    | {"Mult": "Mul", "USub": "Neg", "Eq": "Equal", "Lt": "Less", "LtE": "LessOrEqual"}
    | {"Gt": "Greater", "GtE": "GreaterOrEqual"}
)
"""The operators of conditions, by their names in `ast`, that ONNX has for whole numbers, with the same results."""


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
        case ast.Call(ast.Name("max" | "min" as extreme), operands):
            return extreme.capitalize(), operands
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) | ast.BoolOp(sign, [left, right]):
            operands = [left, right]
        case ast.UnaryOp(sign, operand):
            operands = [operand]
        case _:
            sign, operands = node, []
    name = type(sign).__name__
    if name not in OPERATORS:
        raise CaptureFailed(f"the condition has {name}, which ONNX does not have for whole numbers")
    return OPERATORS[name], operands
