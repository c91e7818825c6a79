"""The definitions of operators of `com.microsoft` that other runtimes do not have: the standard operators."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes import nodes

DEFINED = ("CausalConvWithState", "LinearAttention")
"""Operators of `com.microsoft` that have the inputs, outputs and attributes of the standard operator of their name."""


def define_operators(model: Any) -> Any:
    """Adds to a graph of opset 27 or later a function for each operator of DEFINED: the standard operator.

    ONNX Runtime takes its own kernel of the operator, and every other program the function.
    """
    for name in DEFINED:
        first = next((node for node in model.graph.all_nodes() if node.op_type == name), None)
        if first is not None:
            function = _definition(name, first.attributes, model.opset_imports[""])
            model.functions[function.identifier()] = function
            nodes.import_domain(model)
    return model


def _definition(name: str, attributes: Any, opset: int) -> Any:
    """An operator of `com.microsoft` as a function that calls the standard operator with its inputs and attributes."""
    import onnx
    import onnx_ir

    schema = onnx.defs.get_schema(name, opset)
    inputs, outputs = ([onnx_ir.Value(name=each.name) for each in side] for side in (schema.inputs, schema.outputs))
    passed = [onnx_ir.RefAttr(each, each, attribute.type) for each, attribute in attributes.items()]
    node = onnx_ir.Node("", name, inputs, passed, outputs=outputs, version=opset)
    graph = onnx_ir.Graph(inputs, outputs, nodes=[node], opset_imports={"": opset})
    own = [onnx_ir.Attr(each, attribute.type, None) for each, attribute in attributes.items()]
    return onnx_ir.Function(nodes.DOMAIN, name, graph=graph, attributes=own)
