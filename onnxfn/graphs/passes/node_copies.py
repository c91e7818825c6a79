"""Nodes compared and copied, with the graphs inside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def read(node: Any) -> Iterator[Any]:
    """What a node reads, and what the graphs inside it read from outside of them."""
    yield from (value for value in node.inputs if value is not None)
    for graph in _inside(node):
        made = {*graph.inputs, *(value for one in graph for value in one.outputs)}
        yield from (value for one in graph for value in read(one) if value not in made)
        yield from (value for value in graph.outputs if value not in made)


def reread(node: Any, known: Mapping[Any, Any]) -> None:
    """Let a node, and the graphs inside it, read other values in the place of those that are known."""
    for index, value in enumerate(node.inputs):
        if value in known:
            node.replace_input_with(index, known[value])
    for graph in _inside(node):
        for one in graph:
            reread(one, known)
        for index, value in enumerate(graph.outputs):
            if value in known:
                graph.outputs[index] = known[value]


def copied(node: Any, known: Mapping[Any, Any]) -> Any:
    """A node that does the same and reads what is known in the place of what this one reads; else the same values."""
    import onnx_ir

    made = onnx_ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else known.get(value, value) for value in node.inputs],
        [_copied_attribute(attribute, known) for attribute in node.attributes.values()],
        overload=node.overload,
        num_outputs=len(node.outputs),
        version=node.version,
        name=node.name,
    )
    for value, ours in zip(node.outputs, made.outputs, strict=True):
        ours.name, ours.shape, ours.type = value.name, value.shape, value.type
    return made


def does_the_same(one: Any, other: Any) -> bool:
    """Whether two nodes do the same with what they read, and read as many values."""
    if (one.domain, one.op_type, one.overload) != (other.domain, other.op_type, other.overload):
        return False
    if [value is None for value in one.inputs] != [value is None for value in other.inputs]:
        return False
    if len(one.outputs) != len(other.outputs) or one.attributes.keys() != other.attributes.keys():
        return False
    same = all(_same_attribute(attribute, other.attributes[name]) for name, attribute in one.attributes.items())
    return same and len(list(read(one))) == len(list(read(other)))


def same_constant(one: Any, other: Any) -> bool:
    """Whether two values are constants of the graph with the same elements."""
    ours, theirs = one.const_value, other.const_value
    if ours is None or theirs is None or ours.dtype != theirs.dtype:
        return False
    return bool(np.array_equal(ours.numpy(), theirs.numpy()))


def _inside(node: Any) -> list[Any]:
    """The graphs inside a node."""
    if not node.attributes:
        return []
    return [graph for attribute in node.attributes.values() for graph in _graphs(attribute)]


def _graphs(attribute: Any) -> list[Any]:
    if attribute.type.name == "GRAPH":
        return [attribute.value]
    return list(attribute.value) if attribute.type.name == "GRAPHS" else []


def _copied_attribute(attribute: Any, known: Mapping[Any, Any]) -> Any:
    import onnx_ir

    graphs = [_copied_graph(graph, known) for graph in _graphs(attribute)]
    if not graphs:
        return attribute
    value = graphs[0] if attribute.type.name == "GRAPH" else graphs
    return onnx_ir.Attr(attribute.name, attribute.type, value)


def _copied_graph(graph: Any, known: Mapping[Any, Any]) -> Any:
    import onnx_ir

    inside = dict(known)
    inputs = [onnx_ir.Value(name=value.name, shape=value.shape, type=value.type) for value in graph.inputs]
    inside.update(zip(graph.inputs, inputs, strict=True))
    nodes = []
    for node in graph:
        nodes.append(copied(node, inside))
        inside.update(zip(node.outputs, nodes[-1].outputs, strict=True))
    outputs = [inside.get(value, value) for value in graph.outputs]
    return onnx_ir.Graph(inputs, outputs, nodes=nodes, name=graph.name)


def _same_attribute(one: Any, other: Any) -> bool:
    if one.type != other.type:
        return False
    if one.type.name == "TENSOR":
        return one.value.dtype == other.value.dtype and bool(np.array_equal(one.value.numpy(), other.value.numpy()))
    if _graphs(one):
        ours, theirs = _graphs(one), _graphs(other)
        return len(ours) == len(theirs) and all(_same_graph(*pair) for pair in zip(ours, theirs, strict=True))
    return bool(one.value == other.value)


def _same_graph(one: Any, other: Any) -> bool:
    """Whether two graphs inside nodes do the same with what they read from outside, which the caller compares."""
    if one.initializers or other.initializers or len(one.inputs) != len(other.inputs):
        return False
    known = dict(zip(one.inputs, other.inputs, strict=True))
    ours, theirs = list(one), list(other)
    if len(ours) != len(theirs) or len(one.outputs) != len(other.outputs):
        return False
    for node, against in zip(ours, theirs, strict=True):
        pairs = zip(node.inputs, against.inputs, strict=False)
        if not does_the_same(node, against) or any(known.get(left, right) is not right for left, right in pairs):
            return False
        known.update(zip(node.outputs, against.outputs, strict=True))
    return all(known.get(left, right) is right for left, right in zip(one.outputs, other.outputs, strict=True))
