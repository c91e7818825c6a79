"""The defaults that every plan starts from."""

from __future__ import annotations

from onnxfn.specs.spec import Check, ExportSpec, Target

DEFAULTS = ExportSpec(check=Check(atol=1e-5, rtol=1e-4), target=Target(opset=18, int_dtype="int64"))
"""Opset, tolerances and integer type of a spec that specifies none."""
