"""Operator sets: the opset that brings each fused operator, and the conversion of a graph to an opset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
    """Before: a graph in the opset of the translation. After: the same function in the asked opset."""
    from onnxscript.version_converter import convert_version

    if model.opset_imports.get("") != opset:
        convert_version(model, opset, fallback=True)
    return model
