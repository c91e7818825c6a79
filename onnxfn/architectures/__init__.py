"""The table of architectures: model type -> spec without a task; `ARCHITECTURES | {"mine": spec}` is a longer one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.architectures import text
from onnxfn.records import ExportSpec

ARCHITECTURES: Mapping[str, ExportSpec] = MappingProxyType(
    {name: compose(row, ExportSpec(name=name)) for name, row in text.ROWS.items()}
)
