"""OpenVINO, which has no kernel of ONNX Runtime: it runs the bodies of operators once they are inlined."""

from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from quantized_decoder import exported_decoder, greedy
from running import client_process

pytestmark = pytest.mark.clients


def test_inlined_bodies_write_the_tokens_of_onnxruntime(tmp_path, note):
    note({"client": "openvino", "kind": "text-generation-with-past", "case": "llama in 4 bits, a shared cache"})
    _, _, file = exported_decoder(tmp_path)
    inlined = tmp_path / "inlined.onnx"
    onnx.save(onnx.inliner.inline_local_functions(onnx.load(file)), inlined)
    kernels = onnxruntime.InferenceSession(file)
    with client_process("openvino") as answered:
        for length in (0, 40):
            assert greedy(runner(answered, inlined), length) == greedy(kernels.run, length)


def runner(answered, file: Path):
    def run(names, feeds):
        plain = {
            name: {"dims": array.shape, "data": array.ravel().tolist(), "dtype": str(array.dtype)}
            for name, array in feeds.items()
        }
        outputs = answered({"file": str(file), "feeds": plain, "outputs": names})["result"]
        return [np.array(outputs[name], np.float32) for name in names]

    return run
