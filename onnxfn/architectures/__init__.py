"""The table of architectures: model type -> spec without a task."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.architectures import audio, decoders, detection, libraries, multimodal, seq2seq, series, text, vision
from onnxfn.specs.algebra.spec import ExportSpec

ARCHITECTURES: Mapping[str, ExportSpec] = MappingProxyType(
    {
        model_type: evolve(row, name=model_type)
        for table in (text, decoders, seq2seq, vision, detection, multimodal, audio, series, libraries)
        for model_type, row in table.ROWS.items()
    }
)
"""Every model type with a row, and its spec. To add one without a change here: `ARCHITECTURES | {"mine": spec}`."""
