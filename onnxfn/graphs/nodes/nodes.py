"""Nodes of a graph: finds the node before or after a value, inserts nodes, replaces values.

The functions take and return `onnx_ir` objects. They have the type `Any`, because onnx_ir is imported only when it is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

DOMAIN = "com.microsoft"
"""The domain of the operators that only ONNX Runtime has."""


def producer(value: Any, *op_types: str) -> Any:
    """The node that computes a value, if its operator is one of `op_types`; else None.

    It is None also for an input of the graph, for an initializer, and for an operator outside the ONNX domain.
    """
    node = None if value is None else value.producer()
    return node if node is not None and is_operator(node, *op_types) else None


def sole_consumer(value: Any, *op_types: str) -> Any:
    """The only node that reads a value, if its operator is one of `op_types`; else None.

    It is None also for an output of the graph. `Shape` nodes are not counted: they do not read the elements.
    """
    if value is None:
        return None
    nodes = [use.node for use in value.uses() if use.node.op_type != "Shape"]
    if len(nodes) != 1 or value.is_graph_output():
        return None
    return nodes[0] if is_operator(nodes[0], *op_types) else None


def is_operator(node: Any, *op_types: str) -> bool:
    """Whether a node calls one of these operators of the ONNX domain."""
    return node.op_type in op_types and node.domain == ""


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """The value of an attribute of a node, or `default` if the node does not have the attribute."""
    attr = node.attributes.get(name)
    return default if attr is None else attr.value


def first_input(node: Any) -> Any:
    """The first input of a node; None for no node."""
    return None if node is None else node.inputs[0]


def first_output(node: Any) -> Any:
    """The first output of a node; None for no node."""
    return None if node is None else node.outputs[0]


def other_operand(node: Any, operand: Any) -> Any:
    """The other operand of a node with two operands; None for no node."""
    if node is None:
        return None
    return node.inputs[1] if node.inputs[0] is operand else node.inputs[0]


def all_inputs(node: Any) -> Iterator[Any]:
    """The inputs of a node, then the values of the outer graph that the subgraphs of the node read."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        inner = {*graph.inputs, *(value for inner_node in graph for value in inner_node.outputs)}
        yield from (value for inner_node in graph for value in all_inputs(inner_node) if value not in inner)
        yield from (value for value in graph.outputs if value not in inner)


def subgraphs(node: Any) -> list[Any]:
    """The subgraphs of a node by the names of its attributes: the branches of an If, the body of a Loop or a Scan."""
    return [graph for name in sorted(node.attributes) for graph in attribute_subgraphs(node.attributes[name])]


def nodes_inside_out(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, each after the nodes of its subgraphs."""
    for node in graph:
        for inner in subgraphs(node):
            yield from nodes_inside_out(inner)
        yield node


def attribute_subgraphs(attr: Any) -> list[Any]:
    """The graphs that one attribute holds."""
    if attr.type.name == "GRAPH":
        return [attr.value]
    return list(attr.value) if attr.type.name == "GRAPHS" else []


def insert_node(
    before: Any, operator: str, inputs: Sequence[Any], outputs: Sequence[tuple[Any, Any]], **attributes: Any
) -> Any:
    """Inserts a node before another node and returns it.

    Args:
        before: the node that follows the new one.
        operator: the operator, `"Add"` or `"com.microsoft::MatMulNBits"`.
        inputs: the inputs of the new node; None for an optional input that is left out.
        outputs: for each output a value that has the same dtype, and the sizes of the output. The sizes are None if
            the shape is unknown.
        attributes: the attributes of the new node.
    """
    import onnx_ir

    domain, _, op_type = operator.rpartition("::")
    node = onnx_ir.node(op_type, list(inputs), attributes=attributes, domain=domain, num_outputs=len(outputs))
    for output, (like, sizes) in zip(node.outputs, outputs, strict=True):
        output.type, output.shape = like.type, None if sizes is None else onnx_ir.Shape(list(sizes))
    before.graph.insert_before(before, node)
    return node


def import_domain(model: Any) -> Any:
    """Imports the domain of ONNX Runtime's operators.

    Before: any graph.
    After: a graph with operators of this domain imports the domain.
    """
    if any(node.domain == DOMAIN for node in model.graph.all_nodes()):
        model.opset_imports[DOMAIN] = 1
    return model


def replace_value(old: Any, new: Any) -> None:
    """Lets all nodes read `new` where they read `old`; if `old` is an output of the graph, `new` gets its name."""
    if old.is_graph_output():
        name, old.name = old.name, None
        new.name = name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
