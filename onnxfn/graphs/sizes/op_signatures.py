"""The signatures of ONNX operators, read from their schemas once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def signatures_read_once() -> Iterator[None]:
    """Lets torch's translation use the signature of an operator that it read before, and restores what onnx_ir does.

    torch reads the schema of an operator at each node: its types as text, its attributes as messages.
    """
    from onnx_ir.schemas import OpSignature

    descriptor, read = vars(OpSignature)["from_op_schema"], OpSignature.from_op_schema
    known: dict[tuple[str, str, int], Any] = {}

    def signature(schema: Any) -> Any:
        key = schema.domain, schema.name, schema.since_version
        if key not in known:
            known[key] = read(schema)
        return known[key]

    setattr(OpSignature, "from_op_schema", staticmethod(signature))  # noqa: B010 - a method of another type for mypy
    try:
        yield
    finally:
        setattr(OpSignature, "from_op_schema", descriptor)  # noqa: B010
