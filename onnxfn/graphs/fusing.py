"""Passes that say in one operator what a graph says in many, where the opset has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from onnxfn.graphs.attention import attended
from onnxfn.graphs.norms import normalized
from onnxfn.graphs.rotations import rotated
from onnxfn.graphs.walking import dims

MODERN = 23
"""The opset that brings RMSNormalization, RotaryEmbedding and Attention."""


def fused(model: Any) -> Any:
    """Before: a simplified graph, converted to its opset. After: the same function in the largest operators it has."""
    from onnx_ir.passes import common

    unused = common.RemoveUnusedNodesPass()
    modern = (normalized, rotated, attended) if model.opset_imports.get("", 0) >= MODERN else ()
    for one in (unshaped, *modern):
        unused(one(model))  # what nobody reads any more would still count as a reader of what it reads
    model.graph.sort()
    return model


def unshaped(model: Any) -> Any:
    """After: no `Reshape` gives a tensor the shape that it has."""
    for node in list(model.graph):
        if node.op_type == "Reshape" and None not in dims(node.inputs[0]) and dims(node.inputs[0]):
            given, taken = node.outputs[0], node.inputs[0]
            if dims(given) == dims(taken) and not given.is_graph_output():
                given.replace_all_uses_with(taken)
    return model


def counted(model: Any) -> Mapping[str, int]:
    """How often each operator stands in a graph, those inside others too."""
    return Counter(node.op_type for node in model.graph.all_nodes())
