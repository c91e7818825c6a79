"""The defaults that every plan starts from."""

from __future__ import annotations

from onnxfn.specs.spec import ExportSpec, Target

DEFAULTS = ExportSpec(target=Target(opset=18, int_dtype="int64"))
"""Opset and integer type of a spec that specifies none."""
