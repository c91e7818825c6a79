"""sentence-transformers and fastembed load folders as written, and give what PyTorch gives."""

import pytest
import torch
from cases import TEXTS
from exporting import exported, reference
from pytorch_results import fed, text_embeddings
from running import run_client

pytestmark = pytest.mark.clients

PAIRS = [["what is my name?", "the cat sat"], ["a dog", "the cat sat on the mat"]]


@pytest.mark.parametrize("checkpoint", ["bert score", "bert classes"])
def test_a_cross_encoder_gives_the_scores_of_pytorch(checkpoint, exports, note, assert_close):
    note({"client": "optimum", "kind": "CrossEncoder", "case": checkpoint})
    folder = exported(exports, checkpoint, "text-classification")
    model = reference(exports, checkpoint, folder)
    logits = model.model(**fed(model, *map(list, zip(*PAIRS, strict=True)))).logits
    expected = torch.sigmoid(logits)[:, 0] if logits.shape[1] == 1 else logits
    given = run_client("optimum", {"folder": str(folder), "function": "scores", "pairs": PAIRS})["result"]
    assert_close(given, expected.tolist())


def test_a_sparse_encoder_gives_the_weights_of_pytorch(exports, note, assert_close):
    note({"client": "optimum", "kind": "SparseEncoder", "case": "bert masked"})
    folder = exported(exports, "bert masked", "fill-mask")
    model = reference(exports, "bert masked", folder)
    inputs = fed(model, TEXTS)
    weights = torch.log1p(torch.relu(model.model(**inputs).logits)) * inputs["attention_mask"][..., None]
    job = {"folder": str(folder), "function": "embeddings", "class": "SparseEncoder", "texts": TEXTS}
    assert_close(run_client("optimum", job)["result"], weights.amax(1).tolist())


BY_CLASS = {"function": "embeddings", "class": "SentenceTransformer"}


@pytest.mark.parametrize(
    ("client", "kind", "checkpoint", "job"),
    [
        ("optimum", "SentenceTransformer", "minilm", BY_CLASS),
        ("fastembed", "TextEmbedding", "minilm", {"size": 384, "file": "onnx/model.onnx"}),
        ("fastembed", "TextEmbedding", "bert", {"size": 32, "file": "onnx/model.onnx"}),
    ],
)
def test_a_client_gives_the_embeddings_of_pytorch(client, kind, checkpoint, job, exports, note, assert_close):
    note({"client": client, "kind": kind, "case": checkpoint})
    folder = exported(exports, checkpoint, "feature-extraction")
    expected = text_embeddings(reference(exports, checkpoint, folder), TEXTS)
    assert_close(run_client(client, {"folder": str(folder), "texts": TEXTS, **job})["result"], expected)
