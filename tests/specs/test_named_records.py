"""Records by position and by name: a collection of them is, in all else, the tuple that it holds."""

import pickle
from typing import get_args, get_origin, get_type_hints

import pytest
import strategies as some
from attrs import fields, has
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn import ExportSpec, Plan, UnknownName
from onnxfn.specs.named_records import Named, by_name
from onnxfn.specs.short_repr import LONGEST_REPR
from onnxfn.specs.stored.serialize import RECORDS, digest, from_json, to_json

collections = st.one_of(some.by_name(some.inputs), some.by_name(some.outputs), some.by_name(some.generators))
"""Records with different names."""

NO_NAMES = {"Changes", "Report", "Exported"}
"""Records of results, whose fields are read in order."""


@given(collections)
def test_a_record_is_at_its_position_and_at_its_name(records):
    named = Named(records, "tensor")
    for position, record in enumerate(records):
        assert named[position] is named[position - len(records)] is named[record.name] is record
        assert record in named
        assert record.name in named
    assert list(named) == list(records)
    assert len(named) == len(records)
    assert bool(named) == bool(records)


@given(collections, st.slices(4))
def test_a_slice_is_a_tuple(records, part):
    assert Named(records)[part] == records[part]


@given(collections, collections)
def test_it_equals_hashes_prints_and_pickles_as_its_tuple(left, right):
    named, other = Named(left, "left"), Named(right, "right")
    assert named == left
    assert left == named
    assert (named == other) == (left == right)
    assert hash(named) == hash(left)
    assert len(repr(named)) <= LONGEST_REPR
    assert repr(named) == repr(left) or len(repr(left)) > LONGEST_REPR
    assert pickle.loads(pickle.dumps(named)) == named
    assert to_json(named) == to_json(left)


@given(some.specs)
def test_a_spec_takes_lists_tuples_and_its_own_collections(spec):
    fields_of = {"inputs": spec.inputs, "outputs": spec.outputs, "tasks": spec.tasks, "cases": spec.cases}
    specs = [ExportSpec(**{name: kind(value) for name, value in fields_of.items()}) for kind in (list, tuple, iter)]
    specs.append(ExportSpec(**fields_of))
    assert all(built == specs[0] and digest(built) == digest(specs[0]) for built in specs)
    assert from_json(to_json(specs[0])) == specs[0]
    assert by_name(spec.inputs) is spec.inputs


def test_it_is_no_record_of_stored_specs():
    assert Named not in RECORDS.values()


def test_every_tuple_of_named_records_takes_names():
    """A filler is at most one part; results are read in order."""
    left = []
    for record in (record for name, record in RECORDS.items() if name not in NO_NAMES):
        for name, annotation in get_type_hints(record).items():
            item = get_args(annotation)[0] if get_origin(annotation) is tuple else None
            if isinstance(item, type) and has(item) and "name" in {field.name for field in fields(item)}:
                left.append((record.__name__, name))
    assert left == [("Part", "filler")]


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (record, field)
        for record in RECORDS.values()
        for field in fields(record)
        if record is not Plan and get_origin(get_type_hints(record)[field.name]) is Named
    ],
    ids=lambda value: getattr(value, "__name__", None) or value.name,
)
def test_a_name_that_no_record_has_is_an_error_with_the_word_of_the_field(record, field):
    word = field.default.word
    assert refusal(UnknownName, lambda: field.default["x"]) == f"no {word} 'x'; known: none"
    assert word != "record"
