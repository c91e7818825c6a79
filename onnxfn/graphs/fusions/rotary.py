"""The pass that fuses rotary embeddings (RoPE): below opset 23 a rotary embedding is about ten nodes."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.fusions.rotary_patterns import Rotation, rotation_at
from onnxfn.graphs.fusions.rotary_tables import Tables, rotary_tables
from onnxfn.graphs.nodes.nodes import flatten_heads, insert_node, int_constant, replace_value, shape_of


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
    cos, sin = rotary_tables(last, rotation, tables)
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
