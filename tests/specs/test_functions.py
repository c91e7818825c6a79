"""Named functions of specs."""

from functools import partial
from operator import add

import pytest
from refusals import refusal

from onnxfn.specs.converters import resolve
from onnxfn.specs.errors import UnknownName

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
