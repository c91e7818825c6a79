"""Integers of compressed-tensors: their number of bits is stated, and has to give the words that are there."""

import numpy as np
import pytest
from refusals import refusal

from onnxfn.specs.errors import LoadFailed
from onnxfn.weights.packed.packed_integers import COMPRESSED_TENSORS


def bits(columns, words, *stated):
    """The bits of the integers of a weight with 4 rows, from settings that state these numbers of bits."""
    parts = {".weight_shape": np.array([4, columns]), ".weight_packed": np.zeros((4, words), np.int32)}
    groups = {f"group_{index}": {"weights": {"num_bits": each}} for index, each in enumerate(stated)}
    return COMPRESSED_TENSORS.bits(parts, {"config_groups": groups} if stated else {})


@pytest.mark.parametrize("number", [2, 4, 8])
def test_the_stated_bits_are_those_of_the_words(number):
    assert bits(64, 2 * number, number) == bits(64, 2 * number) == bits(64, 2 * number, 2, 4, 8) == number


@pytest.mark.parametrize("number", [3, 5, 6])
@pytest.mark.parametrize("columns", [64, 16])
def test_other_bits_are_refused_also_where_the_words_would_do_for_known_ones(number, columns):
    """16 integers of 3 or 4 bits take two words, since a word holds as many as fit whole."""
    words = -(-columns // (32 // number))
    assert refusal(LoadFailed, bits, columns, words, number) == (
        f"{columns} packed integers lie in {words} words of 32 bits, and the settings state num_bits={number}; known "
        "are 2, 4, 8 bits; export the checkpoint that it was made from"
    )


def test_words_that_are_none_of_the_stated_bits_are_refused():
    assert "the settings state num_bits=4, 8; known are" in refusal(LoadFailed, bits, 64, 7, 4, 8)
    assert "63 packed integers lie in 9 words of 32 bits; known are" in refusal(LoadFailed, bits, 63, 9)
