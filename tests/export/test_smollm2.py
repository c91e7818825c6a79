"""Real weights: SmolLM2-135M-Instruct goes to one file, and writes what PyTorch writes."""

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
def demonstrated(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "smollm2"
    return CliRunner().invoke(app, ["demo", str(out), "--generate"]), out


@pytest.fixture(scope="module")
def smol():
    return load_gguf_model(smollm2())


def test_the_demo_completes_the_text_as_pytorch_does(demonstrated):
    done, _ = demonstrated
    assert done.exit_code == 0, done.output
    assert "ONNX Runtime: The capital of France is Paris." in done.stdout
    assert "check passed" in done.stdout


def test_the_tied_embedding_is_stored_once(demonstrated, smol):
    _, out = demonstrated
    unique = sum(one.numel() * one.element_size() for one in smol[0].parameters())
    assert [path.name for path in out.glob("*.onnx*")] == ["model.onnx"]
    assert os.path.getsize(out / "model.onnx") <= 1.01 * unique


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_is_continued_token_for_token(demonstrated, smol, prompt):
    _, out = demonstrated
    model, tokenizer = smol
    given = tokenizer(prompt, return_tensors="pt")
    by_torch = model.generate(**given, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None).numpy()
    assert np.array_equal(generate(out / "model.onnx", given["input_ids"].numpy(), max_new_tokens=TOKENS), by_torch)


def test_a_batch_of_padded_prompts_is_continued_as_each_alone(demonstrated, smol):
    _, out = demonstrated
    file, tokenizer = out / "model.onnx", smol[1]
    each = [tokenizer(prompt, return_tensors="np")["input_ids"] for prompt in PROMPTS]
    longest = max(ids.shape[1] for ids in each)
    ids = np.concatenate([np.pad(one, ((0, 0), (longest - one.shape[1], 0))) for one in each])
    mask = np.concatenate([np.pad(np.ones_like(one), ((0, 0), (longest - one.shape[1], 0))) for one in each])
    together = generate(file, ids, mask, max_new_tokens=TOKENS)
    for row, one in zip(together, each, strict=True):
        assert np.array_equal(row[-TOKENS:], generate(file, one, max_new_tokens=TOKENS)[0, -TOKENS:])


def test_the_exported_folder_has_what_a_tokenizer_needs(demonstrated, smol):
    from transformers import AutoTokenizer

    _, out = demonstrated
    assert AutoTokenizer.from_pretrained(out)(PROMPT)["input_ids"] == smol[1](PROMPT)["input_ids"]
