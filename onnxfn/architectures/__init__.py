"""The table of architectures: model type -> spec without a task; `ARCHITECTURES | {"mine": spec}` is a longer one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve

from onnxfn.architectures import audio, decoders, detection, libraries, multimodal, seq2seq, series, text, vision
from onnxfn.specs.spec import ExportSpec

ARCHITECTURES: Mapping[str, ExportSpec] = MappingProxyType(
    {
        name: evolve(row, name=name)
        for table in (text, decoders, seq2seq, vision, detection, multimodal, audio, series, libraries)
        for name, row in table.ROWS.items()
    }
)
