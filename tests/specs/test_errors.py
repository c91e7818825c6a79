import pickle
import re
import sys
from pathlib import Path

import pytest

from onnxfn.specs import errors
from onnxfn.specs.algebra.public_calls import NEWEST_TRIED, newer_than_tried, public
from onnxfn.specs.errors import InvalidSpec, OnnxfnError, UnknownName, closest, first_line, listed, unknown
from onnxfn.specs.stored import reports
from onnxfn.specs.stored.reports import CheckFailed

BASES = {
    "UnknownName": LookupError,
    "MissingValue": LookupError,
    "InvalidSpec": ValueError,
    "WrongType": ValueError,
    "CaptureFailed": RuntimeError,
    "FixedSizes": RuntimeError,
    "PatchFailed": TypeError,
    "LayersDiffer": RuntimeError,
    "CheckFailed": RuntimeError,
    "OutputExists": FileExistsError,
    "ModelNotFound": FileNotFoundError,
    "LoadFailed": RuntimeError,
    "WriteFailed": OSError,
    "TimedOut": TimeoutError,
}

ERRORS = {
    name: error
    for name, error in {**vars(errors), **vars(reports)}.items()
    if isinstance(error, type) and issubclass(error, OnnxfnError) and error is not OnnxfnError
}


def test_each_error_is_in_the_table():
    assert set(BASES) == set(ERRORS)


@pytest.mark.parametrize(("name", "base"), BASES.items())
def test_an_error_is_caught_as_an_error_of_onnxfn_and_of_python(name, base):
    assert issubclass(ERRORS[name], OnnxfnError)
    assert issubclass(ERRORS[name], base)


@pytest.mark.parametrize("name", BASES)
def test_an_error_prints_and_is_pickled_with_its_message(name):
    error = ERRORS[name]("no such thing")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), str(error)) == (ERRORS[name], "no such thing", "no such thing")


def test_a_failed_check_without_a_report_has_one_whose_finding_is_the_message():
    report = pickle.loads(pickle.dumps(CheckFailed("far"))).report
    assert (report.findings, report.differences, report.passed) == (("far",), (), False)


def test_the_first_line_of_an_error_is_its_first_that_is_not_blank():
    assert first_line(ValueError("\n  no such axis \nand more")) == "no such axis"
    assert first_line(ValueError("conflicts:\n- axis 0 is 1")) == "conflicts: - axis 0 is 1"


@pytest.mark.parametrize("message", ["", " \n "])
def test_the_first_line_of_an_error_without_a_message_is_the_name_of_its_type(message):
    assert first_line(KeyboardInterrupt(message)) == "KeyboardInterrupt"


def test_the_closest_name_is_suggested_if_one_is_similar():
    assert closest("hiden_size", ["vocab_size", "hidden_size"]) == "; did you mean 'hidden_size'?"
    assert closest("x", ["vocab_size", "hidden_size"]) == closest("x", []) == ""


@pytest.mark.parametrize(
    ("names", "most", "said"),
    [("ba", 9, "b, a"), ("", 9, "none"), ("ab", 2, "a, b"), (map(str, range(30)), 3, "0, 1, 2, ... (30 in all)")],
)
def test_names_are_listed_in_order_and_a_long_list_is_cut_and_counted(names, most, said):
    assert listed(names, most=most) == said


def test_the_message_for_an_unknown_name_has_its_owner_the_known_names_and_the_closest():
    error = unknown("size", "seq_length", iter(["batch_size", "sequence_length"]), of="bert")
    assert type(error) is UnknownName
    reason = "known: batch_size, sequence_length; did you mean 'sequence_length'?"
    assert str(error) == f"no size 'seq_length' for bert; {reason}"


# A package that is newer than the newest that was tried

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture
def _newer_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", sys)
    versions = {**NEWEST_TRIED, "transformers": "6.1.0"}
    monkeypatch.setattr("onnxfn.specs.algebra.public_calls.installed_version", versions.__getitem__)


def failing():
    raise InvalidSpec("no spec")


@pytest.mark.usefixtures("_newer_transformers")
def test_an_error_names_a_newer_package_once():
    with pytest.raises(InvalidSpec, match="no spec") as caught:
        public(public(failing))()
    (note,) = caught.value.__notes__
    assert note.startswith("transformers 6.1.0 is installed; the newest that onnxfn was tried with is 5.")


@pytest.mark.usefixtures("_newer_transformers")
def test_a_call_that_succeeds_says_nothing(capsys):
    assert public(lambda: 3)() == 3
    assert capsys.readouterr() == ("", "")


def test_two_newer_packages_are_both_named():
    note = newer_than_tried({"torch": "3.0", "transformers": "6.0.0"})
    assert note.startswith("torch 3.0 and transformers 6.0.0 are installed; the newest")


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_readme_says_the_newest_that_was_tried(package):
    tried = re.search(rf"{package} [\d.]+ or newer \(([^)]+)\)", README)
    assert re.findall(r"\d+\.\d+\.\d+", tried[1])[-1] == NEWEST_TRIED[package]
