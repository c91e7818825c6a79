"""Signatures of operators are those of onnx_ir, and each is read once."""

from __future__ import annotations

import onnx
from onnx_ir.schemas import OpSignature

from onnxfn.graphs.translations.lowering import signatures_read_once


def test_signatures_are_those_of_onnx_ir_and_read_once():
    schemas = [onnx.defs.get_schema(name, version, "") for name in ("Add", "Conv", "Clip") for version in (13, 18)]
    before = vars(OpSignature)["from_op_schema"]
    expected = [str(OpSignature.from_op_schema(schema)) for schema in schemas]
    with signatures_read_once():
        signatures = [OpSignature.from_op_schema(schema) for schema in schemas]
        again = [OpSignature.from_op_schema(schema) for schema in schemas]
    assert [str(signature) for signature in signatures] == expected
    assert [*map(id, signatures)] == [*map(id, again)]
    assert vars(OpSignature)["from_op_schema"] is before
