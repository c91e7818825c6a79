"""The record of what clients do. No client runs here."""

import client_results
import pytest

COMMON = ("gemma3_text", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3")


@pytest.mark.parametrize("client", ["transformers.js", "genai"])
@pytest.mark.parametrize("model_type", COMMON)
def test_the_recorded_line_of_a_common_decoder_says_that_it_works(client, model_type):
    lines = client_results.recorded()[client]["results"][client_results.DECODER_TYPES]
    assert not lines[model_type].startswith(client_results.NOT)
