"""Operator sets: the opset that brings each fused operator, and the conversion of a graph to an opset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.nodes.pass_errors import pass_errors

ATTENTION_OPSET = 23
"""The opset that brings Attention, RMSNormalization and RotaryEmbedding."""

SINCE: Mapping[str, int] = MappingProxyType(
    {
        "Attention": ATTENTION_OPSET,
        "RMSNormalization": ATTENTION_OPSET,
        "RotaryEmbedding": ATTENTION_OPSET,
        "Gelu": 20,
        "LayerNormalization": 17,
    }
)
"""A fused operator -> the opset that brings it."""


def convert_opset(model: Any, opset: int) -> Any:
    """Converts a graph to an opset.

    Before: the graph has the opset of torch's translation.
    After: it computes the same with operators of `opset`.

    Raises:
        CaptureFailed: the graph cannot be converted. The converter of onnx itself is no substitute: it leaves the graph
            as it is, without an error, where it fails.
    """
    from onnxscript.version_converter import convert_version

    for node in model.graph:  # torch writes a graph without operators, an input that is an output, without a version
        node.version = node.version or model.opset_imports.get("", opset)
    if model.opset_imports.get("") != opset:
        with pass_errors(f"the conversion to opset {opset}"):
            convert_version(model, opset, fallback=False)
    return model
