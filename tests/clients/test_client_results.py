"""The record of what clients do, and its tables. No client runs here."""

from __future__ import annotations

import client_results
import pytest
from comparing import largest_difference


def test_the_tables_are_those_of_the_results():
    text = client_results.README.read_text()
    assert text == client_results.readme(text, client_results.recorded())


def test_a_line_says_the_difference_the_flags_or_the_reason():
    note = {"difference": 1.23e-7, "flags": ("--dtype", "float16")}
    assert client_results.line_of(note, "") == "works, max abs diff 1e-07, with `--dtype float16`"
    assert client_results.line_of({}, "no file") == "not: no file"


@pytest.mark.parametrize(("client", "known", "least"), [("transformers.js", 59, 57), ("genai", 128, 110)])
def test_each_decoder_type_that_a_client_knows_has_a_result_and_nearly_all_work(client, known, least):
    lines = client_results.recorded()[client]["results"][client_results.DECODER_TYPES]
    assert len(lines) == known
    assert sum(not line.startswith(client_results.NOT) for line in lines.values()) >= least


@pytest.mark.parametrize("given", [{"text": "b"}, {}, {"text": "a", "scores": [1.0]}])
def test_what_is_not_a_number_must_be_equal(given):
    with pytest.raises(AssertionError):
        largest_difference(given, {"text": "a", "scores": [1.0, 2.0]})
