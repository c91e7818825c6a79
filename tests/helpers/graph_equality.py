"""Equality of graphs up to the names of inner values: the nodes are compared backwards, from the outputs."""

from contextlib import nullcontext

import numpy as np

from onnxfn.graphs.build_options import BuildOptions, trace_all_layers
from onnxfn.graphs.layers.repeated_layers import repeated_layers
from onnxfn.graphs.nodes.slots import slot_of
from onnxfn.graphs.traced_graphs import graph_with_slots
from onnxfn.specs.stored.reports import no_tick


def timed(*_):
    """The time of a step, which is not measured."""
    return nullcontext(no_tick)


def repeated_and_traced(model, part):
    """The graph with repeated layers and the graph of a trace of all layers."""
    options = [BuildOptions(find_repeats=finder) for finder in (repeated_layers, trace_all_layers)]
    return [graph_with_slots(model, part, timed, option) for option in options]


def first_difference(model, other):
    """The first difference between two models as a sentence; None if all outputs are computed by the same nodes."""
    for side in ("inputs", "outputs"):
        ports, other_ports = (
            [(value.name, str(value.shape), value.dtype) for value in getattr(graph, side)]
            for graph in (model.graph, other.graph)
        )
        if ports != other_ports:
            return f"the {side} differ"
    count, other_count = len(list(model.graph)), len(list(other.graph))
    if count != other_count:
        return f"{count} nodes and {other_count} nodes"
    counterparts = dict(zip(model.graph.inputs, other.graph.inputs, strict=True))
    return graph_difference(model.graph, other.graph, counterparts)


def graph_difference(graph, other, counterparts):
    """The first pair of values that differ, from the outputs back; `counterparts` maps values to those of the other."""
    pairs = list(zip(graph.outputs, other.outputs, strict=True))
    while pairs:
        value, other_value = pairs.pop()
        if value is None or other_value is None or value in counterparts:
            if counterparts.get(value) is not other_value:
                return f"{value} is read where the other graph reads {other_value}"
            continue
        counterparts[value] = other_value
        difference = value_difference(value, other_value, counterparts)
        if difference:
            return difference
        if value.producer() is not None:
            pairs.extend(zip(value.producer().inputs, other_value.producer().inputs, strict=True))
    return None


def value_difference(value, other, counterparts):
    """The difference between the nodes that compute two values, without their inputs."""
    node, other_node = value.producer(), other.producer()
    if node is None or other_node is None:
        same = node is other_node and same_leaves(value, other)
        return None if same else f"{value.name} and {other.name} differ"
    if operation(value) != operation(other):
        return f"{value.name} is an output of {operation(value)}, {other.name} of {operation(other)}"
    for name, attribute in node.attributes.items():
        difference = attribute_difference(attribute, other_node.attributes[name], counterparts)
        if difference:
            return f"{name} of {operation(value)}: {difference}"
    return None


def operation(value):
    """The operator that computes a value, the index of the output, the number of inputs, the attribute names."""
    node = value.producer()
    return node.domain, node.op_type, value.index(), len(node.inputs), tuple(node.attributes)


def attribute_difference(attribute, other, counterparts):
    if attribute.type.name == "GRAPH":
        inner = {**counterparts, **dict(zip(attribute.value.inputs, other.value.inputs, strict=True))}
        return graph_difference(attribute.value, other.value, inner)
    if attribute.type.name == "TENSOR":
        same = np.array_equal(attribute.value.numpy(), other.value.numpy())
        return None if same else "the elements differ"
    return None if attribute.value == other.value else f"{attribute.value} and {other.value}"


def same_leaves(value, other):
    """Whether two values are inputs of one name, the same slot, or constants with the same elements."""
    if slot_of(value) or slot_of(other):
        return slot_of(value) == slot_of(other)
    if value.const_value is None or other.const_value is None:
        return value.const_value is other.const_value and value.name == other.name
    array, other_array = value.const_value.numpy(), other.const_value.numpy()
    return array.dtype == other_array.dtype and np.array_equal(array, other_array)
