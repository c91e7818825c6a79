"""No record takes a value that its fields cannot have: the error names the record, the field, the value, what fits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from attrs import NOTHING, fields, has
from hypothesis import given
from hypothesis import strategies as st
from public_names import VALUES

from onnxfn import OnnxfnError
from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.named_records import Named
from onnxfn.specs.stored.serialize import RECORDS

PUBLIC = VALUES
CLASSES = {**RECORDS, **{name: value for name, value in PUBLIC.items() if isinstance(value, type) and has(value)}}

EXAMPLES = {str: "x", int: 2, float: 1.0, bool: True, Any: "x", AxisMap: axis_map("n")}
"""A type -> a value of it."""

WRONG = {
    str: st.sampled_from((3, 1.5, b"x", True)) | st.integers(),
    int: st.sampled_from(("x", True, b"x")) | st.floats(allow_nan=False),
    float: st.sampled_from((True, b"x")) | st.text(),
    bool: st.sampled_from((1, 0, "yes")),
}
"""A type -> values of other types."""


def example(annotation):
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType, Literal):
        return example(arguments[0]) if origin is not Literal else arguments[0]
    if origin in (tuple, Named):
        return () if origin is Named or arguments[-1] is Ellipsis else tuple(map(example, arguments))
    if annotation in EXAMPLES:
        return EXAMPLES[annotation]
    if origin is Mapping or annotation is dict:
        return {}
    if origin is Callable:
        return len
    return built(annotation) if has(annotation) else None


def built(record, **values):
    """A record with these values, and with examples for the other fields that have no default."""
    types = get_type_hints(record)
    required = {field.alias: example(types[field.name]) for field in fields(record) if field.default is NOTHING}
    return record(**{**required, **values})


def wrong_values(annotation):
    """Values that do not have an annotated type, objects of a class of their own among them; None for `Any`."""
    if annotation is Any:
        return None
    arguments = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    scalars = [argument for argument in arguments if argument in WRONG]
    own = WRONG[scalars[0]] if len(scalars) == 1 else None
    objects = st.sampled_from((object(), 3j))
    if any(get_origin(argument) is Literal for argument in arguments):
        return objects | st.sampled_from(("nope", 3.5))
    if any(get_origin(argument) in (tuple, Named) for argument in arguments):
        items = () if Any in [item for argument in arguments for item in get_args(argument)] else ((object(),), [3j])
        texts = () if Path in arguments else ("x",)  # a path may be written as a text
        return objects | st.sampled_from((3, *texts, *items))
    return objects if own is None else objects | own


OWN_WORDS = ("; possible: ", "; known: ", "; write ", "; pass ", " such as ", " are a dict")
"""Words of the errors that a field has of its own: they say what fits, and may leave out the record."""

FIELDS = [
    (record, field)
    for record in CLASSES.values()
    for field in fields(record)
    if field.init and wrong_values(get_type_hints(record)[field.name]) is not None
]

IDS = [f"{record.__name__}.{field.name}" for record, field in FIELDS]


def test_all_records_are_tried():
    assert len(CLASSES) > 50
    assert len(FIELDS) > 200
    names = {record.__name__ for record, _ in FIELDS}
    assert {"Target", "Check", "ExportSpec", "WriteOptions", "Report", "Plan"} <= names


@pytest.mark.parametrize("record", CLASSES.values(), ids=CLASSES)
def test_a_record_takes_values_of_its_types(record):
    built(record)


@given(st.data())
@pytest.mark.parametrize(("record", "field"), FIELDS, ids=IDS)
def test_a_value_of_another_type_is_refused(record, field, data):
    value = data.draw(wrong_values(get_type_hints(record)[field.name]))
    with pytest.raises(OnnxfnError) as raised:
        built(record, **{field.alias: value})
    message = str(raised.value)
    assert "\n" not in message
    assert field.name.replace("_", " ") in message.replace("_", " ")
    assert record.__name__ in message or any(words in message for words in OWN_WORDS), message
    assert any(words in message for words in ("must be", "known:", "write ", *OWN_WORDS)), message
