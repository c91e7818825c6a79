"""The float form of a quantized file: the same graph on the same stored weights, without quantized activations.

A file may quantize activations while it runs. Then its outputs differ from those of its weights by more than rounding.
In the float form each group of nodes that does so is one product with the weights as numbers, and MatMulNBits computes
in floats. So the rest of the graph is compared with PyTorch at the tolerance of its dtype. The groups themselves have
exactly the form that onnxfn writes, or they are findings; their kernels are measured on a text or in the cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.check.cuts.vertices import read_names
from onnxfn.graphs.quantization.stored_blocks import FLOAT32_COMPUTATION
from onnxfn.run.sessions import IN_PLACE_BYTES
from onnxfn.weights.onnx_files import graph_nodes, with_weights_in_place

PRODUCTS: Mapping[str, tuple[str, int]] = MappingProxyType({"MatMulInteger": ("MatMul", 1), "ConvInteger": ("Conv", 0)})
"""An operator on integers -> the operator on floats, and the axis of its weight that belongs to the outputs."""

LEVEL, FLOAT_LEVELS = "accuracy_level", (0, FLOAT32_COMPUTATION)
"""The attribute of MatMulNBits that says in what numbers it computes, and the values for floats."""


@frozen(eq=False)
class Group:
    """The nodes that multiply quantized activations with integers, and scale the result.

    Attributes:
        source: The name of the activations.
        product: The node that multiplies.
        scales: The name of the scales of the weight.
        output: The name of the result.
    """

    source: str
    product: Any
    scales: str
    output: str


def float_form(file: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """The float form of a file, or None if the file computes in floats; and a line for each product of another form."""
    from onnx import ModelProto

    if not any(node.op_type in PRODUCTS or _level(node) not in FLOAT_LEVELS for node in graph_nodes(file)):
        return None, ()
    model = ModelProto.FromString(with_weights_in_place(file, IN_PLACE_BYTES))
    findings = [line for graph in _graphs(model.graph) for line in _compute_in_floats(graph)]
    content: bytes = model.SerializeToString()
    return content, tuple(findings)


def _graphs(graph: Any) -> Iterator[Any]:
    """The graphs in the branches of the nodes of a graph, the innermost first; then the graph."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
    yield graph


def _level(node: Any) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == LEVEL), 0)


def _compute_in_floats(graph: Any) -> Iterator[str]:
    """Replaces the groups of a graph by products of floats; yields a line for each product that is in no group."""
    producers, readers = _neighbours(graph)
    groups: dict[str, Group] = {}
    for product in [node for node in graph.node if node.op_type in PRODUCTS]:
        group = _group(product, producers, readers)
        if group is None:
            yield f"{product.output[0]!r} is computed by a {product.op_type} whose neighbours are not those of onnxfn"
        else:
            groups[group.output] = group
    nodes = [new for node in graph.node for new in _in_floats(node, groups)]
    needed, remaining = {output.name for output in graph.output}, list[Any]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed.update(read_names(node))
            remaining.append(node)
    del graph.node[:]
    graph.node.extend(reversed(remaining))


Producers = Mapping[str, Any]
"""From the name of a value to the node that computes it."""

Readers = Mapping[str, list[Any]]
"""From the name of a value to the nodes that read it."""


def _neighbours(graph: Any) -> tuple[Producers, Readers]:
    producers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in {*read_names(node)}:
            readers.setdefault(name, []).append(node)
    return producers, readers


def _in_floats(node: Any, groups: Mapping[str, Group]) -> list[Any]:
    """A node that computes in floats; the last node of a group becomes a product. The others have no readers then."""
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name == LEVEL and attribute.i not in FLOAT_LEVELS:
            attribute.i = FLOAT32_COMPUTATION
    group = groups.get(node.output[0])
    if group is None:
        return [node]
    product, (operator, axis) = group.product, PRODUCTS[group.product.op_type]
    codes, zeros, weight = product.input[1], [*product.input[3:4]], f"{group.output}_weight"
    numbers = helper.make_node("DequantizeLinear", [codes, group.scales, *zeros], [weight], axis=axis)
    new = helper.make_node(operator, [group.source, weight], [group.output])
    new.attribute.extend(product.attribute)
    return [numbers, new]


def _group(product: Any, producers: Producers, readers: Readers) -> Group | None:
    """The group of a product of integers, as `quantized_operators.py` writes it; None for another form."""
    quantizer = producers.get(product.input[0])
    if quantizer is None or quantizer.op_type != "DynamicQuantizeLinear":
        return None
    codes, scale, zero = quantizer.output
    cast = _only_reader(product, readers, "Cast")
    scaled = None if cast is None else _only_reader(cast, readers, "Mul")
    if scaled is None or [product.input[0], *product.input[2:3]] != [codes, zero]:
        return None
    factor = producers.get(next((name for name in scaled.input if name != cast.output[0]), ""))
    if factor is None or factor.op_type != "Mul" or scale not in factor.input:
        return None
    scales = next((name for name in factor.input if name != scale), "")
    return Group(quantizer.input[0], product, scales, scaled.output[0]) if scales not in producers else None


def _only_reader(node: Any, readers: Readers, operator: str) -> Any:
    """The only node that reads the output of a node, if it has this operator; None else."""
    nodes = readers.get(node.output[0], [])
    return nodes[0] if len(nodes) == 1 and nodes[0].op_type == operator else None
