"""ONNX Runtime loads a file while PyTorch computes the first case."""

import threading
from functools import partial

import torch
from vector_specs import vector_spec

import onnxfn
from onnxfn.check.cases.references import references
from onnxfn.check.check import check
from onnxfn.run.sessions import kept_session

LONGEST_WAIT = 30


def exported(folder):
    """A model, and the part of the plan that its file in the folder was exported for."""
    model = torch.nn.Linear(4, 3)
    model.forward = lambda x: {"y": torch.nn.functional.linear(x, model.weight, model.bias)}
    return model, onnxfn.export(vector_spec(4, 3), model.eval(), folder, check=False).plan.parts[0]


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
    report = check(model, part, tmp_path / "model.onnx", session_for=session_for, expected=lambda *_, **__: computed())
    assert report.passed
    assert waited[0]
