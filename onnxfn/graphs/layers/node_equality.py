"""Equality of nodes, with their subgraphs, and of constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxfn.graphs.nodes.nodes import all_inputs, attribute_subgraphs


def same_operation(node: Any, other: Any) -> bool:
    """Whether two nodes compute the same from their inputs: operator, attributes, subgraphs and number of inputs."""
    if (node.domain, node.op_type, node.overload) != (other.domain, other.op_type, other.overload):
        return False
    if [value is None for value in node.inputs] != [value is None for value in other.inputs]:
        return False
    if len(node.outputs) != len(other.outputs) or node.attributes.keys() != other.attributes.keys():
        return False
    same = all(_same_attribute(attr, other.attributes[name]) for name, attr in node.attributes.items())
    return same and len(list(all_inputs(node))) == len(list(all_inputs(other)))


def same_constant(value: Any, other: Any) -> bool:
    """Whether two values are constants of the graph with the same dtype and the same elements."""
    tensor, other_tensor = value.const_value, other.const_value
    if tensor is None or other_tensor is None or tensor.dtype != other_tensor.dtype:
        return False
    return bool(np.array_equal(tensor.numpy(), other_tensor.numpy()))


def _same_attribute(attr: Any, other: Any) -> bool:
    if attr.type != other.type:
        return False
    if attr.type.name == "TENSOR":
        same_dtype = attr.value.dtype == other.value.dtype
        return same_dtype and bool(np.array_equal(attr.value.numpy(), other.value.numpy()))
    graphs, other_graphs = attribute_subgraphs(attr), attribute_subgraphs(other)
    if graphs:
        return len(graphs) == len(other_graphs) and all(map(_same_graph, graphs, other_graphs))
    return bool(attr.value == other.value)


def _same_graph(graph: Any, other: Any) -> bool:
    """Whether two subgraphs compute the same from the values of the outer graph, which the caller compares."""
    if graph.initializers or other.initializers or len(graph.inputs) != len(other.inputs):
        return False
    nodes, other_nodes = list(graph), list(other)
    if len(nodes) != len(other_nodes) or len(graph.outputs) != len(other.outputs):
        return False
    counterparts = dict(zip(graph.inputs, other.inputs, strict=True))
    for node, other_node in zip(nodes, other_nodes, strict=True):
        pairs = zip(node.inputs, other_node.inputs, strict=False)
        if not same_operation(node, other_node):
            return False
        if any(counterparts.get(value, other_value) is not other_value for value, other_value in pairs):
            return False
        counterparts.update(zip(node.outputs, other_node.outputs, strict=True))
    pairs = zip(graph.outputs, other.outputs, strict=True)
    return all(counterparts.get(value, other_value) is other_value for value, other_value in pairs)
