"""onnxruntime-web on WebGPU, in Chromium without a GPU: files of the profile give what PyTorch gives, also by steps."""

import pytest
import tiny
from pairs import tensors
from pytorch_results import array

from onnxfn import export
from onnxfn.edits import for_provider
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import dummies

pytestmark = pytest.mark.clients
CLIENT, PROVIDER = "webgpu", "WebGpuExecutionProvider"

WRITES = "text-generation-with-past"
TASKS = {"bert": "text-classification", "vit": "image-classification", "gpt2": WRITES, "llama": WRITES}
STEPS = ((0, 7), (7, 1), (8, 2))
"""Tokens before each step of a decoder, and its new ones."""

SINES = 2**-9
"""WGSL gives a sine or a cosine an error of 2**-11; an element of a query or a key is up to 4 times as large."""

FLOATS = {"Conv", "Cos", "Gemm", "LayerNormalization", "MatMul", "Mul", "Pow", "ReduceMean", "Sin", "Softmax", "Tanh"}
"""Operators that compute with floats. Those of sizes, positions and masks may run on the CPU."""


@pytest.mark.parametrize("model_type", TASKS)
def test_a_file_gives_what_pytorch_gives(model_type, program, note, assert_close, tmp_path):
    note({"client": CLIENT, "kind": PROVIDER, "case": model_type})
    spec, model = tiny.spec_and_model(model_type, TASKS[model_type])
    (part,) = export(for_provider(spec, CLIENT, dtype="float32"), model, tmp_path, check="none").plan.parts
    steps, feedback = steps_of(part.spec), {each.output: each.input for each in part.spec.feedback}
    job = {"folder": str(tmp_path), "steps": [*map(tensors, steps)], "feedback": feedback}
    given, expected = program(job), list(expected_outputs(model, part, steps, feedback))
    assert PROVIDER in given["placed"]
    assert not FLOATS & {*given["placed"].get("CPUExecutionProvider", ())}
    assert_close(given["result"][:2], expected[:2])  # float32 rounds them by 2e-6: here all sines are of 0
    assert_close(given["result"], expected, SINES)


def steps_of(spec):
    """The inputs of the one step of an encoder, or of those of a decoder: positions are 0 in all but the last."""
    if not spec.feedback:
        return [dummies(spec, {})]
    *first, last = (dummies(spec, {"past_sequence_length": past, "sequence_length": new}) for past, new in STEPS)
    return [*(each | {"position_ids": each["position_ids"] * 0} for each in first), last]


def expected_outputs(model, part, steps, feedback):
    past = {}
    for inputs in steps:
        arrays = torch_outputs(model, part, inputs | past)
        outputs = {tensor.name: output for tensor, output in zip(part.spec.outputs, arrays, strict=True)}
        past = {name: outputs[output] for output, name in feedback.items()}
        yield {name: array(output) for name, output in outputs.items()}
