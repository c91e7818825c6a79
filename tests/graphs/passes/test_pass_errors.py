"""Errors of the passes of onnx_ir and onnxscript become CaptureFailed."""

import pytest

from onnxfn.graphs.nodes.nodes import pass_errors
from onnxfn.specs.errors import CaptureFailed


def test_an_error_names_the_step_and_its_first_line():
    with (
        pytest.raises(CaptureFailed, match=r"^the simplification failed: KeyError: 'no such value'$") as caught,
        pass_errors("the simplification"),
    ):
        raise KeyError("no such value")
    assert type(caught.value.__cause__) is KeyError
