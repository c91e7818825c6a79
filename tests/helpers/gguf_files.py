import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

WIDTH, HIDDEN, VOCABULARY, HEADS = 256, 512, 64, 4
SHAPES = {
    "token_embd": (VOCABULARY, WIDTH),
    "output": (VOCABULARY, WIDTH),
    **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
    **{f"blk.0.ffn_{name}": (HIDDEN, WIDTH) for name in ("gate", "up")},
    "blk.0.ffn_down": (WIDTH, HIDDEN),
}


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
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["w", "1", *(f"w{number}" for number in range(VOCABULARY - 2))])
    writer.add_token_merges(["w 1"])
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
