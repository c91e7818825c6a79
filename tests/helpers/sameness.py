"""Whether two graphs are one up to names: the same nodes, read backwards from the outputs."""

from __future__ import annotations

import numpy as np

from onnxfn.graphs.passes.slots import slot_of


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
    """The first pair of values, from the outputs back, that are not made alike."""
    todo = list(zip(one.outputs, other.outputs, strict=True))
    while todo:
        ours, theirs = todo.pop()
        if ours is None or theirs is None or ours in known:
            if known.get(ours) is not theirs:
                return f"{ours} where the other reads {theirs}"
            continue
        known[ours] = theirs
        problem = values_unlike(ours, theirs, known)
        if problem:
            return problem
        if ours.producer() is not None:
            todo.extend(zip(ours.producer().inputs, theirs.producer().inputs, strict=True))
    return None


def values_unlike(ours, theirs, known):
    node, against = ours.producer(), theirs.producer()
    if node is None or against is None:
        same = node is against and leaves_alike(ours, theirs)
        return None if same else f"{ours.name} and {theirs.name} are not one"
    if made(ours) != made(theirs):
        return f"{ours.name} is made by {made(ours)}, {theirs.name} by {made(theirs)}"
    told = ((name, attribute_unlike(one, against.attributes[name], known)) for name, one in node.attributes.items())
    return next((f"{name} of {made(ours)}: {problem}" for name, problem in told if problem), None)


def made(value):
    """What makes a value, without what it reads."""
    node = value.producer()
    return node.domain, node.op_type, value.index(), len(node.inputs), tuple(node.attributes)


def attribute_unlike(one, other, known):
    if one.type.name == "GRAPH":
        inner = {**known, **dict(zip(one.value.inputs, other.value.inputs, strict=True))}
        return graphs_unlike(one.value, other.value, inner)
    if one.type.name == "TENSOR":
        return None if np.array_equal(one.value.numpy(), other.value.numpy()) else "other elements"
    return None if one.value == other.value else f"{one.value} and {other.value}"


def leaves_alike(one, other):
    """Graph inputs of one name, one parameter turned alike, or constants with the same elements."""
    if slot_of(one) or slot_of(other):
        return slot_of(one) == slot_of(other)
    if one.const_value is None or other.const_value is None:
        return one.const_value is other.const_value and one.name == other.name
    ours, theirs = one.const_value.numpy(), other.const_value.numpy()
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
