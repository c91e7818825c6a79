"""The weights of SmolLM2-135M-Instruct: one file, which generates the same tokens as PyTorch."""

import os

import numpy as np
from smollm2_weights import load_smollm2
from transformers import AutoTokenizer

import onnxfn
from onnxfn.run.generation import generate

PROMPT = "The capital of France is"
PROMPTS = (PROMPT, "Once upon a time, in a small village,", "def fibonacci(n):")
TOKENS = 32


def test_one_file_completes_texts_as_pytorch_does(tmp_path):
    """One test, so that one process exports the model, which takes longest. A padded batch is as each prompt alone."""
    model, tokenizer = load_smollm2()
    out = tmp_path / "smollm2"
    tokenizer.save_pretrained(tmp_path / "checkpoint")
    spec = onnxfn.spec_for(model, "text-generation-with-past")
    how = {"checkpoint": tmp_path / "checkpoint", "dtypes": ("float32", "float16")}
    assert onnxfn.export(spec, model, out, **how).report.passed
    unique = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    assert sorted(path.name for path in out.glob("*.onnx*")) == ["model.onnx", "model_fp16.onnx"]
    assert os.path.getsize(out / "model.onnx") <= 1.01 * unique
    for prompt in PROMPTS:
        inputs = tokenizer(prompt, return_tensors="pt")
        expected = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None).numpy()
        completed = generate(out / "model.onnx", inputs["input_ids"].numpy(), max_new_tokens=TOKENS)
        assert np.array_equal(completed, expected)
    single = [tokenizer(prompt, return_tensors="np")["input_ids"] for prompt in PROMPTS]
    longest = max(ids.shape[1] for ids in single)
    ids = np.concatenate([np.pad(row, ((0, 0), (longest - row.shape[1], 0))) for row in single])
    mask = np.concatenate([np.pad(np.ones_like(row), ((0, 0), (longest - row.shape[1], 0))) for row in single])
    batch = generate(out / "model.onnx", ids, mask, max_new_tokens=TOKENS)
    for row, prompt in zip(batch, single, strict=True):
        assert np.array_equal(row[-TOKENS:], generate(out / "model.onnx", prompt, max_new_tokens=TOKENS)[0, -TOKENS:])
    assert AutoTokenizer.from_pretrained(out)(PROMPT)["input_ids"] == tokenizer(PROMPT)["input_ids"]
