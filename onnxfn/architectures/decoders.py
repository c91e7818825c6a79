"""Decoders of text: rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.edits import only_tasks
from onnxfn.families import positions, text_decoder
from onnxfn.records import ExportSpec

FEATURES = ("feature-extraction", "feature-extraction-with-past")
GENERATION = (*FEATURES, "text-generation", "text-generation-with-past")

llama = compose(text_decoder, positions)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "gpt2": only_tasks(llama, *GENERATION, "text-classification", "token-classification"),
        "llama": only_tasks(llama, *GENERATION, "text-classification"),
        "qwen2": only_tasks(llama, *GENERATION, "text-classification", "token-classification"),
    }
)
