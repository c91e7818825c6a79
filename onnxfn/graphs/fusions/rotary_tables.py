"""Tables of cosines and sines as the operator RotaryEmbedding reads them: `[batch, length, size / 2]`."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.fusions.rotary_patterns import ONCE, PAIRS, RANK, Rotation
from onnxfn.graphs.nodes.nodes import insert_node, int_constant, producer, shape_of, size_tensor

Tables = dict[tuple[Any, ...], Any]
"""The tables that were made for earlier rotations: layers share them."""


def rotary_tables(last: Any, rotation: Rotation, known: Tables) -> tuple[Any, Any]:
    """The cosines and sines of a rotation, each angle once; new nodes are inserted before `last`."""
    cos, sin = (_table(last, table, rotation, known) for table in (rotation.cos, rotation.sin))
    return cos, _negated(last, sin, known) if rotation.backwards else sin


def _table(last: Any, table: Any, rotation: Rotation, known: Tables) -> Any:
    key = (table, rotation.layout, rotation.backwards)
    if key not in known:
        angles = _without_heads(last, table, rotation)
        known[key] = _for_batch(last, _each_once(last, angles, rotation), rotation)
    return known[key]


def _negated(last: Any, sin: Any, known: Tables) -> Any:
    key = (sin, "negated")
    if key not in known:
        known[key] = insert_node(last, "Neg", [sin], [(sin, sin.shape)]).outputs[0]
    return known[key]


def _without_heads(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table as `[batch or 1, length, size]`."""
    operator, axis = ("Squeeze", rotation.heads_axis) if len(shape_of(table)) == RANK else ("Unsqueeze", 0)
    batch, length = shape_of(table)[0] if axis else 1, shape_of(rotation.x)[3 - rotation.heads_axis]
    sizes = (batch, length, shape_of(table)[-1])
    unsqueeze = producer(table, "Unsqueeze")
    if axis and unsqueeze is not None and shape_of(unsqueeze.inputs[0]) == sizes:
        return unsqueeze.inputs[0]
    return insert_node(last, operator, [table, int_constant(last.graph, axis)], [(table, sizes)]).outputs[0]


def _each_once(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table with each angle once."""
    if rotation.layout == ONCE:
        return table
    end, step = (rotation.size, 2) if rotation.layout == PAIRS else (rotation.size // 2, 1)
    bounds = [int_constant(last.graph, number) for number in (0, end, 2, step)]
    sizes = (*shape_of(table)[:2], rotation.size // 2)
    return insert_node(last, "Slice", [table, *bounds], [(table, sizes)]).outputs[0]


def _for_batch(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table with the batch size of x: the operator does not broadcast this axis."""
    graph, batch = last.graph, shape_of(rotation.x)[0]
    if shape_of(table)[0] == batch:
        return table
    size, ones, like = size_tensor(last, batch), int_constant(graph, 1, 1), int_constant(graph, 0)
    sizes = insert_node(last, "Concat", [size, ones], [(like, (3,))], axis=0).outputs[0]
    return insert_node(last, "Expand", [table, sizes], [(table, (batch, *shape_of(table)[1:]))]).outputs[0]
