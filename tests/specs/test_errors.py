"""What goes wrong is said in one line."""

import pickle

import pytest

from onnxfn.specs import errors
from onnxfn.specs.errors import CheckFailed, OnnxfnError, UnknownName, closest, first_line, listed, unknown

KIN = {
    "UnknownName": LookupError,
    "MissingValue": LookupError,
    "InvalidSpec": ValueError,
    "CaptureFailed": RuntimeError,
    "LayersDiffer": RuntimeError,
    "CheckFailed": RuntimeError,
    "OutputExists": FileExistsError,
    "ModelNotFound": FileNotFoundError,
}

ERRORS = {
    name: one
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, OnnxfnError) and one is not OnnxfnError
}


def test_each_error_has_its_kin_among_pythons_own():
    assert set(KIN) == set(ERRORS)


@pytest.mark.parametrize(("name", "kin"), KIN.items())
def test_an_error_is_caught_as_onnxfns_and_as_pythons(name, kin):
    assert issubclass(ERRORS[name], OnnxfnError)
    assert issubclass(ERRORS[name], kin)


@pytest.mark.parametrize("name", KIN)
def test_an_error_prints_as_its_one_line(name):
    assert str(ERRORS[name]("no such thing")) == "no such thing"


@pytest.mark.parametrize("name", KIN)
def test_an_error_keeps_its_text_between_processes(name):
    back = pickle.loads(pickle.dumps(ERRORS[name]("no such thing")))
    assert (type(back), str(back)) == (ERRORS[name], "no such thing")


def test_a_failed_check_has_no_report_until_it_is_given_one():
    assert CheckFailed("far").report is None


def test_the_first_line_of_an_error_is_its_first_that_is_not_blank():
    assert first_line(ValueError("\n  no such axis \nand more")) == "no such axis"


@pytest.mark.parametrize("message", ["", " \n "])
def test_the_first_line_of_an_error_without_a_message_is_the_name_of_its_type(message):
    assert first_line(KeyboardInterrupt(message)) == "KeyboardInterrupt"


def test_the_closest_name_is_asked_for():
    assert closest("hiden_size", ["vocab_size", "hidden_size"]) == "; did you mean 'hidden_size'?"


def test_nothing_is_asked_when_no_name_is_near():
    assert closest("x", ["vocab_size", "hidden_size"]) == ""
    assert closest("x", []) == ""


def test_names_are_listed_in_order():
    assert listed(["b", "a"]) == "b, a"


def test_no_names_are_listed_as_none():
    assert listed([]) == "none"


def test_a_list_of_just_the_most_is_not_cut():
    assert listed(["a", "b"], most=2) == "a, b"


def test_a_long_list_is_cut_and_counted():
    assert listed(map(str, range(30)), most=3) == "0, 1, 2, ... (30 in all)"


def test_an_unknown_name_is_said_with_its_owner_the_known_and_the_closest():
    told = unknown("size", "seq_length", iter(["batch_size", "sequence_length"]), of="bert")
    assert type(told) is UnknownName
    assert str(told) == (
        "no size 'seq_length' for bert; known: batch_size, sequence_length; did you mean 'sequence_length'?"
    )


def test_an_unknown_name_among_none_is_said_so():
    assert str(unknown("task", "fill-mask", [])) == "no task 'fill-mask'; known: none"
