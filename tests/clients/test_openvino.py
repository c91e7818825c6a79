"""OpenVINO on the CPU: models of all families in its profile, and bodies of operators that it has no kernel for."""

import json
from pathlib import Path

import every_part
import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
import tiny
from pairs import tensors
from quantized_decoder import exported_decoder, greedy
from running import client_process

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
    sees = model_type == "llava"
    model = every_part.tiny_model(model_type, task) if sees else tiny.spec_and_model(model_type, task, **changes)[1]
    result = export(for_provider(spec_for(model, task), CLIENT), model, tmp_path, overwrite=True, check="none")
    assert {part.spec.target.opset for part in result.plan.parts} == {18}
    for part in result.plan.parts:
        for sizes in ({}, dict.fromkeys({part.spec.batch} & {*axes_of_inputs(part.spec)}, 1)):
            arrays = dummies(part.spec, sizes)
            outputs = program({"file": str(tmp_path / f"{part.name}.onnx"), "feeds": tensors(arrays)})["result"]
            assert_close(part, outputs, torch_outputs(model, part, arrays))


def test_inlined_bodies_write_the_tokens_of_onnxruntime(tmp_path, note):
    note({"client": CLIENT, "kind": "text-generation-with-past", "case": "llama in 4 bits, a shared cache"})
    _, _, file = exported_decoder(tmp_path)
    inlined = tmp_path / "inlined.onnx"
    onnx.save(onnx.inliner.inline_local_functions(onnx.load(file)), inlined)
    kernels = onnxruntime.InferenceSession(file)
    with client_process(CLIENT) as answered:

        def run(names, feeds):
            outputs = answered({"file": str(inlined), "feeds": tensors(feeds)})["result"]
            return [np.array(outputs[name], np.float32) for name in names]

        for length in (0, 40):
            assert greedy(run, length) == greedy(kernels.run, length)


def assert_close(part, outputs, expected):
    for tensor, values in zip(part.spec.outputs, expected, strict=True):
        actual = np.array(outputs[tensor.name])
        assert actual.shape == values.shape, tensor.name
        scale = max(1.0, float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))) if values.size else 1.0
        assert np.allclose(actual, values, rtol=0, atol=TOLERANCE * scale), tensor.name
