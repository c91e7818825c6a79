"""GGUF files: refused before a weight is read, or exported with the float weights that the package gguf says."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from command_line import invoke
from gguf import GGMLQuantizationType as Kind
from refusals import refusal
from transformers import LlamaConfig

import onnxfn
from onnxfn.specs.errors import LoadFailed

WIDTH, HIDDEN, VOCABULARY, HEADS = 256, 512, 64, 4
SHAPES = {
    "token_embd": (VOCABULARY, WIDTH),
    "output": (VOCABULARY, WIDTH),
    **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
    **{f"blk.0.ffn_{name}": (HIDDEN, WIDTH) for name in ("gate", "up")},
    "blk.0.ffn_down": (WIDTH, HIDDEN),
}
NAMES = {
    "token_embd": "model.embed_tokens",
    "output": "lm_head",
    "blk.0.attn_v": "model.layers.0.self_attn.v_proj",
    "blk.0.attn_output": "model.layers.0.self_attn.o_proj",
    "blk.0.ffn_gate": "model.layers.0.mlp.gate_proj",
    "blk.0.ffn_down": "model.layers.0.mlp.down_proj",
}
"""Names of GGUF -> those of transformers. The rows of q and k have another order in GGUF."""


def packed(kind, shape, random):
    """Random blocks of a kind; of K-quants, two scales in float16 come first."""
    if kind != Kind.Q4_K:
        return gguf.quants.quantize((random.normal(size=shape) * 0.1).astype(np.float32), kind)
    size, length = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (*shape[:-1], shape[-1] // size, length)).astype(np.uint8)
    blocks[..., :4] = np.frombuffer(np.array([0.0003, 0.0003], np.float16).tobytes(), np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def write_gguf(file, kind):
    """Writes a Llama of one layer; returns its float weights, as the package gguf dequantizes them."""
    random, expected = np.random.default_rng(0), {}
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name, shape in SHAPES.items():
        blocks = packed(kind, shape, random)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=kind)
        expected[name] = gguf.quants.dequantize(blocks, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


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
    text = refusal(LoadFailed, onnxfn.model_for, str(file))
    assert text.startswith(f"{file} is quantized: GGUF with Q8_0, {file.stat().st_size / 1e9:.3g} GB; ")
    assert f"to export a float model of {floats / 1e9:.3g} GB in float32, half of that in float16" in text
    result = invoke("export", file, tmp_path / "out")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"error: {text}")


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    assert str(file) in refusal(LoadFailed, onnxfn.model_for, str(file), dequantize=True)
