"""The pass that computes a tensor before it is expanded, where what reads the result broadcasts it anyway."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Any

from onnxfn.graphs.nodes.nodes import is_operator
from onnxfn.graphs.nodes.shapes import shape_of

BROADCASTING = (
    *("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Not", "Cast", "Where"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
)
"""Operators that compute each element by itself, and broadcast what they read."""

Sizes = Mapping[int, int]
"""From axes, counted from the last one, which is -1, to the sizes that a tensor is expanded to along them."""


def drop_expands(model: Any) -> Any:
    """Removes nodes that expand a tensor for operators that broadcast it.

    Before: a simplified graph. A model expands a mask to all heads, inverts it, casts it, and adds it to the scores.
    After: the mask is inverted and cast as it is, and the sum with the scores broadcasts it. The outputs of the graph
    have the shapes that they had.
    """
    positions = {node: index for index, node in enumerate(model.graph)}
    for node in list(model.graph):
        sizes = _expanded_sizes(node) if is_operator(node, "Expand") else {}
        smaller = _read_by_broadcasting(node.outputs[0], sizes, positions) if sizes else ()
        for value in smaller:
            value.shape = _with_ones(value, sizes)
        if smaller:
            node.outputs[0].replace_all_uses_with(node.inputs[0])
    return model


def _expanded_sizes(expand: Any) -> dict[int, int]:
    """The sizes that an Expand expands to; none if it adds axes, or if a size is not known."""
    before, after = shape_of(expand.inputs[0]), shape_of(expand.outputs[0])
    rank = len(after)
    if len(before) != rank or None in after:
        return {}
    sizes = {axis - rank: size for axis, size in enumerate(after) if before[axis] == 1 and isinstance(size, int)}
    others_stay = all(size == before[axis] for axis, size in enumerate(after) if axis - rank not in sizes)
    return {axis: size for axis, size in sizes.items() if size != 1} if others_stay else {}


def _read_by_broadcasting(expanded: Any, sizes: Sizes, positions: Mapping[Any, int]) -> tuple[Any, ...]:
    """The values that have the expanded sizes for no other reason than this one, itself first.

    None of them is there if something else than an operator that broadcasts reads one of them.
    """
    smaller = [expanded]
    pending = [positions.get(use.node, -1) for use in expanded.uses()]
    nodes = list(positions)
    heapify(pending)
    while pending:
        index = heappop(pending)
        node = nodes[index]
        if index < 0 or not is_operator(node, *BROADCASTING):
            return ()
        others = [value for value in node.inputs if value not in smaller]
        if any(_has(value, sizes) for value in others):
            continue
        if node.outputs[0].is_graph_output() or not all(_has(value, dict.fromkeys(sizes, 1)) for value in others):
            return ()
        if node.outputs[0] not in smaller:
            smaller.append(node.outputs[0])
            for use in node.outputs[0].uses():
                heappush(pending, positions.get(use.node, -1))
    return () if expanded.is_graph_output() else tuple(smaller)


def _has(value: Any, sizes: Sizes) -> bool:
    """Whether a tensor has these sizes; an axis that it lacks counts as 1."""
    if value is None or value.shape is None:
        return False
    shape = shape_of(value)
    return all((shape[axis] if -axis <= len(shape) else 1) == size for axis, size in sizes.items())


def _with_ones(value: Any, sizes: Sizes) -> Any:
    """The shape of a value, with 1 in place of the sizes that it is no longer expanded to."""
    import onnx_ir

    rank = len(shape_of(value))
    return onnx_ir.Shape([1 if axis - rank in sizes else size for axis, size in enumerate(value.shape)])
