"""OpenVINO on the CPU gives what PyTorch gives, for models of all families in its profile."""

import json
from pathlib import Path

import every_part
import numpy as np
import pytest
import tiny

from onnxfn import export, spec_for
from onnxfn.edits import for_provider
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import axes_of_inputs, dummies

pytestmark = pytest.mark.clients
CLIENT = "openvino"

LOADED = json.loads((Path(__file__).parent / "openvino.json").read_text())
"""A model type -> its task, and what is changed in its configuration. Each draws no random numbers."""

TOLERANCE = 1e-5
"""Of float32 outputs, where the root mean square of an output is at least 1."""


@pytest.mark.parametrize("model_type", LOADED)
def test_files_of_the_profile_give_what_pytorch_gives(model_type, program, note, tmp_path):
    task, changes = LOADED[model_type]
    note({"client": CLIENT, "kind": task, "case": model_type})
    model = every_part.tiny_model(model_type, task) if model_type == "llava" else tiny_model(model_type, task, changes)
    result = export(for_provider(spec_for(model, task), CLIENT), model, tmp_path, overwrite=True, check="none")
    assert {part.spec.target.opset for part in result.plan.parts} == {18}
    for part in result.plan.parts:
        for sizes in ({}, dict.fromkeys({part.spec.batch} & {*axes_of_inputs(part.spec)}, 1)):
            arrays = dummies(part.spec, sizes)
            feeds = {
                name: {"dims": each.shape, "data": each.flatten().tolist(), "dtype": str(each.dtype)}
                for name, each in arrays.items()
            }
            outputs = program({"file": str(tmp_path / f"{part.name}.onnx"), "feeds": feeds})["result"]
            assert_close(part, outputs, torch_outputs(model, part, arrays))


def tiny_model(model_type, task, changes):
    return tiny.model(model_type, spec_for(tiny.config(model_type), task).call.loader, **changes)


def assert_close(part, outputs, expected):
    for tensor, values in zip(part.spec.outputs, expected, strict=True):
        actual = np.array(outputs[tensor.name])
        assert actual.shape == values.shape, tensor.name
        scale = max(1.0, float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))) if values.size else 1.0
        assert np.allclose(actual, values, rtol=0, atol=TOLERANCE * scale), tensor.name
