"""Specs of pairs that onnxfn refuses or exports in parts with modules of its own: what the peer may export instead."""

from __future__ import annotations

from collections.abc import Mapping

from onnxfn import ExportSpec

SPECS: Mapping[tuple[str, str], ExportSpec] = {}
