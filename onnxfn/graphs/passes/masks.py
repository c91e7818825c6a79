"""The pass that leaves of a mask what tells something: torch's gathers it whole, and joins it with what is true."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.passes.nodes import attribute, beside, constant, dims, instead, made, maker, number, numbers, whole


def plain_masks(model: Any) -> Any:
    """Before: a graph of opset 23 or later. After: no mask is gathered whole, expanded to itself, or joined with true.

    A mask `[batch, keys]` that is gathered at every text and every key is itself, `[batch, 1, 1, keys]`.
    """
    for node in list(model.graph):
        same = _same(node)
        if same is not None and dims(same) == dims(node.outputs[0]) and None not in dims(same):
            instead(node.outputs[0], same)
    return model


def _same(node: Any) -> Any:
    """What a node gives again, if it has the shape of what it gives."""
    if node.domain or node.outputs[0].is_graph_output():
        return None
    if node.op_type == "Expand":
        return node.inputs[0]
    if node.op_type == "And":
        return next((beside(node, one) for one in node.inputs if _true(one)), None)
    return _gathered_whole(node) if node.op_type == "GatherND" else None


def _true(value: Any) -> bool:
    given = constant(value)
    return given is not None and given.size == 1 and given.dtype == bool and bool(given.all())


def _gathered_whole(node: Any) -> Any:
    """The tensor that is gathered at every place, in order, with its axes where they are in what is gathered."""
    taken, given = node.inputs[0], node.outputs[0]
    joined, rank = maker(node.inputs[1], "Concat"), len(dims(given))
    if joined is None or attribute(node, "batch_dims", 0) or attribute(joined, "axis") not in (-1, rank):
        return None
    if len(joined.inputs) != len(dims(taken)):
        return None
    places = [_counting(one, size, rank) for one, size in zip(joined.inputs, dims(taken), strict=True)]
    kept = {place: size for place, size in zip(places, dims(taken), strict=True) if place is not None}
    sizes = tuple(kept.get(axis, 1) for axis in range(rank))
    if sizes != dims(given) or list(kept) != sorted(kept) or len(kept) != len(places):
        return None
    others = whole(node.graph, *(axis for axis in range(rank) if axis not in kept))
    return made(node, "Unsqueeze", [taken, others], [(given, sizes)]).outputs[0]


def _counting(indices: Any, size: Any, rank: int) -> int | None:
    """The axis along which indices, `[..., 1]`, count all of a size from zero, the same everywhere else; else None."""
    lifted = maker(indices, "Unsqueeze")
    if lifted is None or size is None or numbers(lifted.inputs[1]) not in ((-1,), (rank,)):
        return None
    spread = maker(lifted.inputs[0], "Expand")
    value = lifted.inputs[0] if spread is None else spread.inputs[0]
    moving = [axis for axis, one in enumerate(dims(value)) if one != 1]
    if len(dims(value)) != rank or [dims(value)[axis] for axis in moving] != [size]:
        return None
    while (node := maker(value, "Unsqueeze")) is not None:
        value = node.inputs[0]
    counted = maker(value, "Range")
    plain = counted is not None and number(counted.inputs[0]) == 0 and number(counted.inputs[2]) == 1
    return moving[0] if plain and dims(value) == (size,) else None
