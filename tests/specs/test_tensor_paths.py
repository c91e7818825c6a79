"""Paths of tensors in the arguments and the result of `forward`."""

from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn.specs.converters import at, nested
from onnxfn.specs.errors import InvalidSpec, UnknownName

CACHE = {"input_ids": 1, "past_key_values": ((2, 3), (4, 5))}


def test_a_value_with_the_empty_path_is_the_tree():
    assert nested([((), 7)]) == 7
    assert at((), 7) == 7


@pytest.mark.parametrize(
    "paths",
    [[("a",), ("a",)], [("a",), ("a", 0)], [(), ("a",)]],
    ids=["one path twice", "one through another", "one through the root"],
)
def test_two_values_at_one_path_are_an_error(paths):
    assert refusal(InvalidSpec, nested, [(path, 1) for path in paths]) == (
        "two values have the same path, or the path of one goes through another"
    )


def test_positions_with_a_gap_are_an_error():
    assert refusal(InvalidSpec, nested, [(("past", 0), 1), (("past", 2), 1)]) == (
        "the positions of a path are [0, 2]; they must be 0, 1, 2, ... without a gap"
    )


def test_a_step_into_an_object_reads_its_attribute():
    assert at(("cache", "layers", 0), SimpleNamespace(cache=SimpleNamespace(layers=[8]))) == 8


def test_a_negative_position_counts_from_the_end():
    assert at(("past_key_values", -1, 0), CACHE) == 4


@pytest.mark.parametrize(
    ("path", "tree", "message"),
    [
        (("keys",), {"input_ids": 1}, "'keys'; there is: input_ids"),  # no method of the mapping
        (
            ("past_key_value", 0),
            CACHE,
            "'past_key_value'; there is: input_ids, past_key_values; did you mean 'past_",
        ),
        (("past_key_values", 2, 0), CACHE, "'past_key_values.2'; there is: tuple"),
        (("past_key_values", -3, 0), CACHE, "'past_key_values.-3'; there is: tuple"),
        (("logits",), 7, "'logits'; there is: int"),
    ],
)
def test_a_missing_value_is_an_error_with_the_path_to_it_and_what_there_is(path, tree, message):
    assert refusal(UnknownName, at, path, tree).startswith(f"nothing at {message}")
