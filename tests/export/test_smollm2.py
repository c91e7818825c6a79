"""The weights of SmolLM2-135M-Instruct: one file, which generates the same tokens as PyTorch."""

from __future__ import annotations

import os

import numpy as np
import pytest
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


def test_the_demo_completes_the_text_as_pytorch_does(demo):
    result, _ = demo
    assert result.exit_code == 0, result.output
    assert "ONNX Runtime: The capital of France is Paris." in result.stdout
    assert "check passed" in result.stdout


def test_the_tied_embedding_is_stored_once(demo, smol):
    _, out = demo
    unique = sum(parameter.numel() * parameter.element_size() for parameter in smol[0].parameters())
    assert [path.name for path in out.glob("*.onnx*")] == ["model.onnx"]
    assert os.path.getsize(out / "model.onnx") <= 1.01 * unique


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_is_completed_with_the_same_tokens(demo, smol, prompt):
    _, out = demo
    model, tokenizer = smol
    inputs = tokenizer(prompt, return_tensors="pt")
    expected = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None).numpy()
    assert np.array_equal(generate(out / "model.onnx", inputs["input_ids"].numpy(), max_new_tokens=TOKENS), expected)


def test_a_batch_of_padded_prompts_is_completed_like_each_prompt_alone(demo, smol):
    _, out = demo
    file, tokenizer = out / "model.onnx", smol[1]
    single = [tokenizer(prompt, return_tensors="np")["input_ids"] for prompt in PROMPTS]
    longest = max(ids.shape[1] for ids in single)
    ids = np.concatenate([np.pad(row, ((0, 0), (longest - row.shape[1], 0))) for row in single])
    mask = np.concatenate([np.pad(np.ones_like(row), ((0, 0), (longest - row.shape[1], 0))) for row in single])
    batch = generate(file, ids, mask, max_new_tokens=TOKENS)
    for row, prompt in zip(batch, single, strict=True):
        assert np.array_equal(row[-TOKENS:], generate(file, prompt, max_new_tokens=TOKENS)[0, -TOKENS:])


def test_the_folder_has_the_files_of_the_tokenizer(demo, smol):
    from transformers import AutoTokenizer

    _, out = demo
    assert AutoTokenizer.from_pretrained(out)(PROMPT)["input_ids"] == smol[1](PROMPT)["input_ids"]
