import threading
from functools import partial

import torch
from vector_specs import vector_spec

import onnxfn
from onnxfn.check.cases.references import references
from onnxfn.check.check import check
from onnxfn.run.sessions import kept_session


def test_pytorch_computes_the_first_case_while_the_file_is_loaded(tmp_path):
    model = torch.nn.Linear(4, 3)
    model.forward = lambda x: {"y": torch.nn.functional.linear(x, model.weight, model.bias)}
    part = onnxfn.export(vector_spec(4, 3), model.eval(), tmp_path, check=False).plan.parts[0]
    is_computed, waited = threading.Event(), []

    def computed():
        for reference in references(model, part):
            is_computed.set()
            yield reference

    def session_for(file, tick=None):
        waited.append(is_computed.wait(30))
        return opened(file, tick)

    opened = partial(kept_session, {}, None)
    report = check(model, part, tmp_path / "model.onnx", session_for=session_for, expected=lambda *_, **__: computed())
    assert report.passed
    assert waited[0]
