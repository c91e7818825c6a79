"""Models of timm, sentence-transformers and diffusers: rows, as in Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.records import ExportSpec

ROWS: Mapping[str, ExportSpec] = MappingProxyType({})
