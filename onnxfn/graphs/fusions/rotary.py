"""The pass that fuses rotary embeddings (RoPE): below opset 23 a rotary embedding is about ten nodes."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.fusions.rotary_patterns import ONCE, PAIRS, RANK, Rotation, rotation_at
from onnxfn.graphs.nodes.nodes import (
    flatten_heads,
    insert_node,
    int_constant,
    producer,
    replace_value,
    shape_of,
    size_tensor,
)

Tables = dict[tuple[Any, ...], Any]
"""The tables that were made for earlier rotations: layers share them."""


def fuse_rotary(model: Any) -> Any:
    """Fuses each rotary embedding into one operator.

    Before: a graph of opset 23 or later computes `x * cos + rotate_half(x) * sin` in several nodes, where x is `[batch,
    heads, length, size]` or `[batch, length, heads, size]`. It may rotate only a part of the last axis.
    After: it is one RotaryEmbedding. All layers share the tables of cosines and sines. If a table has each angle twice,
    the operator reads half of it.
    """
    tables: Tables = {}
    for node in list(model.graph):
        rotation = rotation_at(node)
        if rotation is not None:
            _replace(rotation, tables)
    return model


def _replace(rotation: Rotation, tables: Tables) -> None:
    x, output, last = rotation.x, rotation.output, rotation.output.producer()
    cos, sin = _tables(last, rotation, tables)
    attributes = {"interleaved": int(rotation.interleaved)}
    if shape_of(x)[-1] != rotation.size:
        attributes["rotary_embedding_dim"] = rotation.size
    outputs = [(output, output.shape)]
    if rotation.heads_axis == 1:
        node = insert_node(last, "RotaryEmbedding", [x, cos, sin], outputs, **attributes)
    else:
        heads, size = shape_of(x)[2:]
        flat = flatten_heads(last, x)
        rotary = insert_node(
            last, "RotaryEmbedding", [flat, cos, sin], [(flat, flat.shape)], num_heads=heads, **attributes
        )
        sizes = int_constant(last.graph, 0, 0, heads, size)
        node = insert_node(last, "Reshape", [rotary.outputs[0], sizes], outputs)
    replace_value(output, node.outputs[0])


# Tables of cosines and sines as the operator reads them: `[batch, length, size / 2]`


def _tables(last: Any, rotation: Rotation, known: Tables) -> tuple[Any, Any]:
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
