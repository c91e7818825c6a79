"""The record of what clients do. No client runs here."""

import client_results
import pytest
from comparing import largest_difference


def test_a_line_says_the_difference_the_flags_or_the_reason():
    note = {"difference": 1.23e-7, "flags": ("--dtype", "float16")}
    assert client_results.line_of(note, "") == "works, max abs diff 1e-07, with `--dtype float16`"
    assert client_results.line_of({}, "no file") == "not: no file"


COMMON = ("gemma3_text", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3")


@pytest.mark.parametrize("client", ["transformers.js", "genai"])
@pytest.mark.parametrize("model_type", COMMON)
def test_the_recorded_line_of_a_common_decoder_says_that_it_works(client, model_type):
    lines = client_results.recorded()[client]["results"][client_results.DECODER_TYPES]
    assert not lines[model_type].startswith(client_results.NOT)


@pytest.mark.parametrize("given", [{"text": "b"}, {}, {"text": "a", "scores": [1.0]}])
def test_what_is_not_a_number_must_be_equal(given):
    with pytest.raises(AssertionError):
        largest_difference(given, {"text": "a", "scores": [1.0, 2.0]})
