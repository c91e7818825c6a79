"""transformers.js reads the `tokenizer.json` that the installed transformers writes for a model of SentencePiece."""

import json

import pytest
from running import run_client

pytestmark = pytest.mark.clients

TEXTS = (
    *("The quick brown fox jumps over the lazy dog.", "  two  spaces,   three, and one at the end "),
    *("naïve café, 東京 and ½", "a<sep>b <sep> c", "line\nbreak\ttab", ""),
)

CORPUS = [f"{text} number {number} of the lazy {text[::-1]}" for number in range(60) for text in TEXTS if text]

KINDS = {
    "llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
    "t5": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc", "bos_id": -1, "pad_id": 3},
}
"""Model type -> how its pieces are trained."""


def write_checkpoint(folder, model_type):
    """A folder with a model of SentencePiece alone, as older checkpoints are."""
    import sentencepiece

    folder.mkdir()
    sizes = {"vocab_size": 400, "hard_vocab_limit": False, "user_defined_symbols": ["<sep>"], "minloglevel": 2}
    files = {"sentence_iterator": iter(CORPUS), "model_prefix": str(folder / "spiece")}
    sentencepiece.SentencePieceTrainer.train(**files, **sizes, **KINDS[model_type])
    name = {"llama": "tokenizer.model", "t5": "spiece.model"}[model_type]
    (folder / "spiece.model").rename(folder / name)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / name))


@pytest.mark.parametrize("model_type", KINDS)
def test_a_client_reads_the_tokens_that_transformers_reads(model_type, tmp_path, note):
    from transformers import AutoTokenizer

    note({"client": "transformers.js", "kind": "tokenizer", "case": f"{model_type}, of SentencePiece", "flags": ()})
    pieces = write_checkpoint(tmp_path / "pieces", model_type)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "pieces")
    tokenizer.save_pretrained(tmp_path / "out")
    (tmp_path / "out" / "config.json").write_text(json.dumps({"model_type": model_type}))
    expected = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert expected[0] == pieces.encode(TEXTS[0])
    assert run_client("transformers.js", {"folder": str(tmp_path / "out"), "texts": TEXTS})["result"] == expected
