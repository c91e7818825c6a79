"""A tiny Llama in 4 bits with a shared cache, and the tokens that a program writes with its file."""

import numpy as np
import tiny

from onnxfn import export, quantize, spec_for, with_shared_cache

TASK = "text-generation-with-past"
CACHE = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
SIZES = (2, 8)
"""Heads of keys, and their size."""


def exported_decoder(folder):
    """The export, the model, and the file."""
    model = tiny.model("llama", "AutoModelForCausalLM")
    spec = quantize(with_shared_cache(spec_for("llama", TASK)), 4, block_size=16)
    return export(spec, model, folder), model, folder / "model.onnx"


def greedy(run, length, count=12):
    """The tokens after a prompt; the buffers of the cache have a length, or grow with the text from 0."""
    heads, size = SIZES
    ids, written = np.array([[3, 17, 45, 9, 22, 64]]), []
    mask, cache = np.ones_like(ids), [np.zeros((1, heads, length, size), np.float32)] * len(CACHE)
    while len(written) < count:
        feeds = {f"past_key_values.{name}": array for name, array in zip(CACHE, cache, strict=True)}
        positions = mask.cumsum(1)[:, -ids.shape[1] :] - 1
        feeds |= {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        logits, *cache = run(["logits", *(f"present.{name}" for name in CACHE)], feeds)
        ids = logits[:, -1].argmax(-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(ids)], 1)
        written.append(int(ids[0, 0]))
    return written
