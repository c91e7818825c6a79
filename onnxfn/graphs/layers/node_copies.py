"""Copies of nodes, with their subgraphs, that read other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxfn.graphs.nodes.nodes import attribute_subgraphs, subgraphs


def replace_inputs(node: Any, replacements: Mapping[Any, Any]) -> None:
    """Lets a node and its subgraphs read the replacement of each value that has one."""
    for index, value in enumerate(node.inputs):
        if value in replacements:
            node.replace_input_with(index, replacements[value])
    for graph in subgraphs(node):
        for inner_node in graph:
            replace_inputs(inner_node, replacements)
        for index, value in enumerate(graph.outputs):
            if value in replacements:
                graph.outputs[index] = replacements[value]


def copy_node(node: Any, replacements: Mapping[Any, Any]) -> Any:
    """A copy of a node, with its subgraphs, that reads the replacement of each value that has one.

    The copy is in no graph. Its outputs have the names, shapes and dtypes of the outputs of the node.
    """
    import onnx_ir

    copy = onnx_ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else replacements.get(value, value) for value in node.inputs],
        [_copy_attribute(attr, replacements) for attr in node.attributes.values()],
        overload=node.overload,
        num_outputs=len(node.outputs),
        version=node.version,
        name=node.name,
    )
    for output, new_output in zip(node.outputs, copy.outputs, strict=True):
        new_output.name, new_output.shape, new_output.type = output.name, output.shape, output.type
    return copy


def _copy_attribute(attr: Any, replacements: Mapping[Any, Any]) -> Any:
    import onnx_ir

    graphs = [_copy_graph(graph, replacements) for graph in attribute_subgraphs(attr)]
    if not graphs:
        return attr
    value = graphs[0] if attr.type.name == "GRAPH" else graphs
    return onnx_ir.Attr(attr.name, attr.type, value)


def _copy_graph(graph: Any, replacements: Mapping[Any, Any]) -> Any:
    import onnx_ir

    inner = dict(replacements)
    inputs = [onnx_ir.Value(name=value.name, shape=value.shape, type=value.type) for value in graph.inputs]
    inner.update(zip(graph.inputs, inputs, strict=True))
    nodes = []
    for node in graph:
        nodes.append(copy_node(node, inner))
        inner.update(zip(node.outputs, nodes[-1].outputs, strict=True))
    outputs = [inner.get(value, value) for value in graph.outputs]
    return onnx_ir.Graph(inputs, outputs, nodes=nodes, name=graph.name)
