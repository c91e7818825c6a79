"""The arguments of `generate`: what is not for the model is InvalidSpec, and ONNX Runtime logs nothing."""

import numpy as np
import pytest
import tiny
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import InvalidSpec

TASKS = {"llama": "text-generation-with-past", "t5": "text2text-generation-with-past"}


def spec_and_model(model_type):
    return tiny.spec_and_model(model_type, TASKS[model_type])


REFUSED = [
    ({"input_ids": [[-5]]}, "input_ids holds -5; a token is 0 or more"),
    ({"input_ids": [[]]}, "input_ids has the shape [1, 0]; each prompt has at least one token"),
    ({"input_ids": []}, "input_ids has the shape [0]; each prompt has at least one token"),
    ({"input_ids": [[1], [1, 2]]}, "input_ids has rows of different lengths; pad the shorter prompts on the left"),
    ({"input_ids": [["a text"]]}, "input_ids holds <U6, which are not numbers; pass the output of a tokenizer"),
    (
        {"input_ids": [[1, 2]], "attention_mask": [[1]]},
        "attention_mask has the shape [1, 1], and input_ids [1, 2]",
    ),
    (
        {"input_ids": [[1, 2]], "attention_mask": [[1, 7]]},
        "attention_mask holds other values than 0 for padding and 1 for tokens",
    ),
    ({"input_ids": [[1]], "stop": 5}, "stop is 5; pass token ids, such as (2,)"),
    ({"input_ids": [[1]], "max_new_tokens": -1}, "max_new_tokens is -1; pass a whole number, 0 or more"),
    ({"input_ids": [[1]], "max_new_tokens": 2.5}, "max_new_tokens is 2.5; pass a whole number, 0 or more"),
    ({"input_ids": [[1]], "stop": "end"}, "stop is 'end'; pass token ids, such as (2,)"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("model_type", TASKS)
def test_prompts_that_no_model_can_have_are_refused(exports, model_type, arguments, message):
    assert refusal(InvalidSpec, onnxfn.generate, exports(model_type)[-1], **arguments) == message


@pytest.mark.parametrize(
    ("input_ids", "message"),
    [
        ([1, 2], "input_ids has the shape [2]; pass [batch, length], such as [[1, 2, 3]]"),
        ([[1.5]], "input_ids holds fractions, float64; pass token ids, which are integers"),
    ],
)
def test_prompts_of_a_decoder_are_texts_of_tokens(exports, input_ids, message):
    assert refusal(InvalidSpec, onnxfn.generate, exports("llama")[-1], input_ids) == message


def test_a_first_token_is_for_a_decoder_with_an_encoder(exports):
    message = "start is 1, and a decoder without an encoder starts with input_ids; leave it out"
    assert refusal(InvalidSpec, onnxfn.generate, exports("llama")[-1], [[1]], start=1) == message
    assert onnxfn.generate(exports("llama")[-1], [[1, 2]], max_new_tokens=0).tolist() == [[1, 2]]


@pytest.mark.parametrize(("model_type", "start"), [("llama", None), ("t5", 0)])
def test_a_token_that_the_model_does_not_have_is_refused_and_nothing_is_logged(exports, model_type, start, capfd):
    message = refusal(InvalidSpec, onnxfn.generate, exports(model_type)[-1], [[3, 5000]], start=start)
    assert message.startswith(
        "ONNX Runtime cannot run the model on input_ids of the shape [1, 2] with tokens from 3 to"
    )
    assert "idx=5000 must be within the inclusive range" in message
    assert capfd.readouterr() == ("", "")


def test_any_integers_are_tokens(exports):
    llama = exports("llama")[-1]
    texts = [
        onnxfn.generate(llama, np.array([[3, 4]], dtype=dtype), np.array([[1, 1]], dtype=mask), stop=np.array([2]))
        for dtype, mask in [("int64", "int64"), ("int32", "bool"), ("uint8", "float32"), ("float64", "int64")]
    ]
    assert all(np.array_equal(text, texts[0]) for text in texts)
