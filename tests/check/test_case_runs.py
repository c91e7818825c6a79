"""ONNX Runtime loads a file while PyTorch computes the first case."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

import numpy as np
import onnxruntime
import pytest
import torch

import onnxfn
from onnxfn import compose, generates, gives, sized, takes
from onnxfn.check.cases.references import RETURNS_MEMORY, references, while_loaded, with_outputs
from onnxfn.check.check import check
from onnxfn.run.sessions import kept_session
from onnxfn.specs.stored.reports import CheckFailed

LONGEST_WAIT = 30
SPEC = compose(
    takes("pixels", "batch_size 4", "pixels", kind="float"),
    gives("scores", "batch_size 3"),
    generates("pixels", "normal"),
    sized(batch_size=2),
)


def exported(folder):
    """A model, and the part of the plan that its file in the folder was exported for."""
    model = torch.nn.Linear(4, 3)
    model.forward = lambda pixels: {"scores": torch.nn.functional.linear(pixels, model.weight, model.bias)}
    return model, onnxfn.export(SPEC, model.eval(), folder, check=False).plan.parts[0]


def test_pytorch_computes_the_first_case_while_the_file_is_loaded(tmp_path):
    model, part = exported(tmp_path)
    is_computed, waited = threading.Event(), []

    def computed():
        for reference in references(model, part):
            is_computed.set()
            yield reference

    def session_for(file, tick=None):
        waited.append(is_computed.wait(LONGEST_WAIT))
        return opened(file, tick)

    opened = partial(kept_session, {}, None)
    report = check(model, part, tmp_path / "model.onnx", session_for=session_for, expected=computed())
    assert report.passed
    assert waited[0]


def test_no_case_is_computed_after_the_loading_of_the_file_failed():
    session, computed = Future(), []
    session.set_exception(CheckFailed("ONNX Runtime cannot load model.onnx"))

    def cases():
        for number in range(3):
            computed.append(number)
            yield number

    with pytest.raises(CheckFailed, match="cannot load"):
        [*while_loaded(session, cases())]
    assert computed == [0]


@pytest.mark.parametrize("has_arena", [True, False])
def test_a_run_returns_its_memory_if_the_session_keeps_any(has_arena, tmp_path, capfd):
    model, part = exported(tmp_path)
    options, run_options = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    options.enable_cpu_mem_arena = has_arena
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    for reference in references(model, part):
        of_case = with_outputs(lambda: session, run_options, tmp_path / "model.onnx", part, reference)
        assert np.allclose(of_case[1][0], reference.outputs[0], atol=1e-5)
    if has_arena:
        assert run_options.get_run_config_entry(RETURNS_MEMORY) == "cpu:0"
    assert capfd.readouterr().err == ""  # ONNX Runtime warns of an entry that is added twice
