"""Faults that change an answer and that the check does not find, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from verdicts import Fault

EXPLAINED: Mapping[Fault, str] = MappingProxyType(
    {
        Fault("bert_classifier", "eps", "model.onnx", "LayerNormalization_3 1e-05"): (
            "2 logits change by 8 roundings on a text of 160 tokens, and by less in the cases of the check"
        ),
    }
)
"""From a fault to why the check passes it."""
