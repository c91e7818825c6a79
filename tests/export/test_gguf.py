"""GGUF files: refused before a weight is read, or exported with the float weights that the package gguf says."""

import numpy as np
import pytest
from command_line import invoke
from gguf import GGMLQuantizationType as Kind
from gguf_files import SHAPES, WIDTH, write_gguf
from refusals import refusal
from transformers import LlamaConfig

import onnxfn

NAMES = {
    "token_embd": "model.embed_tokens",
    "output": "lm_head",
    "blk.0.attn_v": "model.layers.0.self_attn.v_proj",
    "blk.0.attn_output": "model.layers.0.self_attn.o_proj",
    "blk.0.ffn_gate": "model.layers.0.mlp.gate_proj",
    "blk.0.ffn_down": "model.layers.0.mlp.down_proj",
}
"""Names of GGUF -> those of transformers. The rows of q and k have another order in GGUF."""


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q8_0, Kind.Q4_K], ids=lambda kind: kind.name)
def test_weights_are_what_the_package_gguf_makes_of_them(kind, tmp_path):
    file = tmp_path / "tiny.gguf"
    expected = write_gguf(file, kind)
    model = onnxfn.model_for(str(file), dequantize=True)
    state = model.state_dict()
    for name, theirs in NAMES.items():
        assert np.array_equal(state[f"{theirs}.weight"].numpy(), expected[name]), name
    assert isinstance(model.config, LlamaConfig)
    assert model.onnxfn_weights_from.startswith(f"dequantized from GGUF with {kind.name}, ")


def test_a_quantized_file_is_refused_before_its_weights_are_read(tmp_path):
    file = tmp_path / "tiny.gguf"
    write_gguf(file, Kind.Q8_0)
    floats = 4 * (sum(map(np.prod, SHAPES.values())) + 3 * WIDTH)
    text = refusal(onnxfn.LoadFailed, onnxfn.model_for, str(file))
    assert text.startswith(f"{file} is quantized: GGUF with Q8_0, {file.stat().st_size / 1e9:.3g} GB; ")
    assert f"to export a float model of {floats / 1e9:.3g} GB in float32, half of that in float16" in text
    result = invoke("export", file, tmp_path / "out")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"error: {text}")


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    assert str(file) in refusal(onnxfn.LoadFailed, onnxfn.model_for, str(file), dequantize=True)
