from functools import partial
from operator import add
from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn.specs.converters import at, nested, resolve
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
    message = "two values have the same path, or the path of one goes through another"
    assert refusal(InvalidSpec, nested, [(path, 1) for path in paths]) == message


def test_positions_with_a_gap_are_an_error():
    message = "the positions of a path are [0, 2]; they must be 0, 1, 2, ... without a gap"
    assert refusal(InvalidSpec, nested, [(("past", 0), 1), (("past", 2), 1)]) == message


def test_a_step_into_an_object_reads_its_attribute():
    assert at(("cache", "layers", 0), SimpleNamespace(cache=SimpleNamespace(layers=[8]))) == 8


def test_a_negative_position_counts_from_the_end():
    assert at(("past_key_values", -1, 0), CACHE) == 4


@pytest.mark.parametrize(
    ("path", "tree", "message"),
    [
        (("keys",), {"input_ids": 1}, "'keys'; there is: input_ids"),  # no method of the mapping
        (("past_key_value", 0), CACHE, "'past_key_value'; there is: input_ids, past_key_values; did you mean 'past_"),
        (("past_key_values", 2, 0), CACHE, "'past_key_values.2' of an object of the type tuple"),
        (("past_key_values", -3, 0), CACHE, "'past_key_values.-3' of an object of the type tuple"),
        (("logits",), 7, "'logits' of an object of the type int"),
    ],
)
def test_a_missing_value_is_an_error_with_the_path_to_it_and_what_there_is(path, tree, message):
    assert refusal(UnknownName, at, path, tree).startswith(f"nothing at {message}")


# Named functions of specs

KNOWN = {"sum": add, "difference": "operator:sub"}


@pytest.mark.parametrize(
    ("name", "result"), [("sum", 5), ("difference", 1), ("operator:mul", 6), ("builtins:int.__add__", 5)]
)
def test_a_name_refers_to_a_function(name, result):
    assert resolve(name, KNOWN, kind="example")(3, 2) == result


def test_an_unknown_short_name_is_an_error_that_names_the_closest():
    assert refusal(UnknownName, partial(resolve, kind="patch"), "summ", KNOWN) == (
        "no patch 'summ'; known: sum, difference; did you mean 'sum'?; "
        "any other function is written 'package.module:function'"
    )


@pytest.mark.parametrize("module", ["no_such_module", "no module", "", ".relative"])
def test_a_module_that_cannot_be_imported_is_an_error_with_its_cause(module):
    with pytest.raises(UnknownName) as caught:
        resolve(f"{module}:f", KNOWN, kind="patch")
    assert str(caught.value).startswith(f"patch '{module}:f': module {module!r} cannot be imported: ")
    assert isinstance(caught.value.__cause__, Exception)


def test_an_unknown_attribute_of_a_module_is_an_error_that_names_the_closest():
    message = refusal(UnknownName, partial(resolve, kind="dummy function"), "operator:addd", KNOWN)
    assert message.startswith("no dummy function 'addd' for 'operator:addd'; known: abs, add, ")
    assert message.endswith("; did you mean 'add'?")
