"""Errors of the passes of onnx_ir and onnxscript."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxfn.specs.errors import CaptureFailed, first_line


@contextmanager
def pass_errors(step: str) -> Iterator[None]:
    """Raises CaptureFailed for any error inside; its message names the step and the error."""
    try:
        yield
    except Exception as error:
        raise CaptureFailed(f"{step} failed: {type(error).__name__}: {first_line(error)}") from error
