"""The weights of SmolLM2-135M-Instruct: one file, which generates the same tokens as PyTorch."""

from __future__ import annotations

import os

import numpy as np
import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from onnxfn.check.generation import generate
from onnxfn.export.cli import app
from onnxfn.export.demo import PROMPT, smollm2
from onnxfn.export.lookup.loading import load_gguf_model

PROMPTS = (PROMPT, "Once upon a time, in a small village,", "def fibonacci(n):")
TOKENS = 32


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "smollm2"
    return CliRunner().invoke(app, ["demo", str(out), "--generate"]), out


@pytest.fixture(scope="module")
def smol():
    return load_gguf_model(smollm2())


def test_the_demo_writes_one_file_that_completes_texts_as_pytorch_does(demo, smol):
    """One test, so that one process runs the demo, which takes longest."""
    result, out = demo
    assert result.exit_code == 0, result.output
    assert "ONNX Runtime: The capital of France is Paris." in result.stdout
    assert "check passed" in result.stdout
    unique = sum(parameter.numel() * parameter.element_size() for parameter in smol[0].parameters())
    assert [path.name for path in out.glob("*.onnx*")] == ["model.onnx"]
    assert os.path.getsize(out / "model.onnx") <= 1.01 * unique
    for prompt in PROMPTS:
        assert_a_prompt_is_completed_with_the_same_tokens(out, *smol, prompt)
    assert_a_batch_of_padded_prompts_is_completed_like_each_prompt_alone(out, smol[1])
    assert AutoTokenizer.from_pretrained(out)(PROMPT)["input_ids"] == smol[1](PROMPT)["input_ids"]


def assert_a_prompt_is_completed_with_the_same_tokens(out, model, tokenizer, prompt):
    inputs = tokenizer(prompt, return_tensors="pt")
    expected = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None).numpy()
    assert np.array_equal(generate(out / "model.onnx", inputs["input_ids"].numpy(), max_new_tokens=TOKENS), expected)


def assert_a_batch_of_padded_prompts_is_completed_like_each_prompt_alone(out, tokenizer):
    file = out / "model.onnx"
    single = [tokenizer(prompt, return_tensors="np")["input_ids"] for prompt in PROMPTS]
    longest = max(ids.shape[1] for ids in single)
    ids = np.concatenate([np.pad(row, ((0, 0), (longest - row.shape[1], 0))) for row in single])
    mask = np.concatenate([np.pad(np.ones_like(row), ((0, 0), (longest - row.shape[1], 0))) for row in single])
    batch = generate(file, ids, mask, max_new_tokens=TOKENS)
    for row, prompt in zip(batch, single, strict=True):
        assert np.array_equal(row[-TOKENS:], generate(file, prompt, max_new_tokens=TOKENS)[0, -TOKENS:])
