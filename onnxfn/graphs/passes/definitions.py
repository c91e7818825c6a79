"""The bodies of operators of `com.microsoft`: functions of standard operators, for programs that lack the operators."""

from pathlib import Path
from typing import Any

from onnxfn.graphs.nodes import nodes

DEFINED = ("CausalConvWithState", "LinearAttention")
"""Operators of `com.microsoft` that have the inputs, outputs and attributes of the standard operator of their name."""

BODIES = Path(__file__).parent / "bodies.txt"
"""The bodies of other operators, one for each choice of optional inputs, each after an empty line."""


def define_operators(model: Any) -> Any:
    """Adds the bodies of its operators of `com.microsoft` to a graph: functions of the same domain and name.

    ONNX Runtime takes its own kernel, every other program the function. Nodes with other inputs call an overload of it.
    """
    overloads: dict[tuple[str, tuple[bool, ...]], str] = {}
    for node in [node for node in model.graph.all_nodes() if node.domain == nodes.DOMAIN]:
        key = node.op_type, () if _is_standard(node) else _present(node.inputs)
        if key not in overloads:
            function = _body(node, model.opset_imports[""])
            earlier = sum(name == node.op_type for name, _ in overloads)
            overloads[key] = f"inputs_{earlier + 1}" if earlier and function is not None else ""
            if function is not None:
                function.overload = overloads[key]
                model.functions[function.identifier()] = function
        node.overload = overloads[key]
    # From this version of the format on, functions of one name may differ by an overload.
    model.ir_version = max(model.ir_version, 10 if any(overloads.values()) else 0)
    return nodes.import_domain(model)


def _is_standard(node: Any) -> bool:
    """Whether the standard operator of its name computes a node: linear attention has no more values than queries."""
    query_heads, heads = (nodes.attribute(node, f"{name}_num_heads", 0) for name in ("q", "kv"))
    return node.op_type in DEFINED and query_heads >= heads


def _present(inputs: Any, is_present: Any = lambda value: value is not None) -> tuple[bool, ...]:
    """Which inputs are present, up to the last one that is."""
    present = [bool(is_present(value)) for value in inputs]
    return tuple(present[: len(present) - present[::-1].index(True)])


def _body(node: Any, opset: int) -> Any:
    """A function that computes an operator with the inputs of a node; None if none is known."""
    if _is_standard(node):
        return _definition(node.op_type, node.attributes, opset)
    texts = [text for text in BODIES.read_text("utf-8").split("\n\n") if f"{node.op_type} <" in text]
    functions, present = (_parsed(text, opset) for text in texts), _present(node.inputs)

    def is_for_a_value(formal: Any) -> bool:
        return not formal.name.startswith("no_")  # an input of a body that its nodes leave out

    return next((each for each in functions if _present(each.inputs, is_for_a_value) == present), None)


def _parsed(text: str, opset: int) -> Any:
    import onnx
    import onnx_ir

    header = f'<domain: "{nodes.DOMAIN}", opset_import: ["" : {opset}]>'
    return onnx_ir.from_proto(onnx.parser.parse_function(f"{header}\n{text}"))


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
