"""The defaults that every plan starts from."""

from __future__ import annotations

from onnxfn.specs.records import ExportSpec

DEFAULTS = ExportSpec(opset=18, atol=1e-5, rtol=1e-4, int_dtype="int64")
"""What holds when nobody says otherwise; every plan starts from it."""
