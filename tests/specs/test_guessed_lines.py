"""Lines that one writes first: each works, or its error has the right line."""

import builtins
import json
import pickle
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from public_names import VALUES

import onnxfn

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs, onnxfn.ExportSpec(name="bert"))
CLASSIFIER = onnxfn.for_task(BERT, "text-classification")
NAMES = {**VALUES, "bert": BERT, "tc": CLASSIFIER, "pipe": onnxfn.pipe, "onnxfn": onnxfn}
TOKENS = {0: "batch_size", 1: "sequence_length"}
TEXTS = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TOKENS)

FEATURES = onnxfn.for_task(BERT, "feature-extraction")
DECODER = onnxfn.for_task(onnxfn.ARCHITECTURES["llama"], "text-generation-with-past")
SIZES = {"vocab_size": 9, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
NAMES |= {"fe": FEATURES, "decoder": DECODER, "sizes": SIZES, "partial": partial}
NAMES |= {"pickle": pickle, "deepcopy": deepcopy}
NAMES |= {"float32": np.float32}

WORKING = json.loads(Path(__file__).with_name("guessed_lines_that_work.json").read_text())
"""A line, and its value."""

REFUSED = json.loads(Path(__file__).with_name("guessed_lines.json").read_text())
"""A line, the type of its error, and a part of the message that says what to write."""


@pytest.mark.parametrize(("line", "value"), WORKING, ids=[line for line, _ in WORKING])
def test_a_guessed_line_works(line, value):
    assert eval(line, dict(NAMES)) == eval(value, {"TEXTS": TEXTS})


@pytest.mark.parametrize(("line", "error", "advice"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_the_error_of_a_guessed_line_has_the_right_line(line, error, advice):
    with pytest.raises(getattr(onnxfn, error, None) or getattr(builtins, error)) as raised:
        eval(line, dict(NAMES))
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)
