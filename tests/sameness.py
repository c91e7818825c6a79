"""Whether two graphs are one up to names: the same nodes, read backwards from the outputs."""

from __future__ import annotations

import numpy as np

from onnxfn.graphs.slots import slot


def unlike(one, other):
    """Where two models differ, in words; None when every output is made of the same nodes and parameters."""
    for side in ("inputs", "outputs"):
        ours, theirs = getattr(one.graph, side), getattr(other.graph, side)
        if [(value.name, str(value.shape), value.dtype) for value in ours] != [
            (value.name, str(value.shape), value.dtype) for value in theirs
        ]:
            return f"{side} differ"
    if len(list(one.graph)) != len(list(other.graph)):
        return f"{len(list(one.graph))} nodes and {len(list(other.graph))}"
    return graphs_unlike(one.graph, other.graph, dict(zip(one.graph.inputs, other.graph.inputs, strict=True)))


def graphs_unlike(one, other, known):
    todo = list(zip(one.outputs, other.outputs, strict=True))
    while todo:
        ours, theirs = todo.pop()
        if ours is None or theirs is None:
            if ours is not theirs:
                return "an input is not there"
            continue
        if ours in known:
            if known[ours] is not theirs:
                return f"{ours.name} is {known[ours].name} and {theirs.name}"
            continue
        known[ours] = theirs
        node, against = ours.producer(), theirs.producer()
        if node is None or against is None:
            if node is not against or not leaves_alike(ours, theirs):
                return f"{ours.name} and {theirs.name} are not one"
            continue
        if (node.op_type, node.domain, len(node.inputs)) != (against.op_type, against.domain, len(against.inputs)):
            return f"{node.op_type} ({ours.name}) and {against.op_type} ({theirs.name})"
        if ours.index() != theirs.index() or node.attributes.keys() != against.attributes.keys():
            return f"{node.op_type} ({ours.name}) is not as {theirs.name}"
        for name, attribute in node.attributes.items():
            problem = attribute_unlike(attribute, against.attributes[name], known)
            if problem:
                return f"{name} of {node.op_type} ({ours.name}): {problem}"
        todo.extend(zip(node.inputs, against.inputs, strict=True))
    return None


def attribute_unlike(one, other, known):
    if one.type.name == "GRAPH":
        inner = {**known, **dict(zip(one.value.inputs, other.value.inputs, strict=True))}
        return graphs_unlike(one.value, other.value, inner)
    if one.type.name == "TENSOR":
        return None if np.array_equal(one.value.numpy(), other.value.numpy()) else "other elements"
    return None if one.value == other.value else f"{one.value} and {other.value}"


def leaves_alike(one, other):
    """Graph inputs of one name, one parameter turned alike, or constants with the same elements."""
    if slot(one) or slot(other):
        return slot(one) == slot(other)
    if one.const_value is None or other.const_value is None:
        return one.const_value is other.const_value and one.name == other.name
    ours, theirs = one.const_value.numpy(), other.const_value.numpy()
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
