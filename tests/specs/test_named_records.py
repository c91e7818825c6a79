"""Records by position and by name: a collection of them is, in all else, the tuple that it holds."""

import pickle

import pytest
import strategies as some
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.specs.digest import digest
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.named_records import NAMED, Generators, Inputs, Outputs, as_inputs
from onnxfn.specs.serialize import RECORDS, from_json, to_json
from onnxfn.specs.spec import ExportSpec

collections = st.one_of(
    st.tuples(st.just(Inputs), some.by_name(some.inputs)),
    st.tuples(st.just(Outputs), some.by_name(some.outputs)),
    st.tuples(st.just(Generators), some.by_name(some.generators)),
)
"""A class and the records that it holds."""


@given(collections)
def test_a_record_is_at_its_position_and_at_its_name(pair):
    named, records = pair[0](pair[1]), pair[1]
    for position, record in enumerate(records):
        assert named[position] is named[position - len(records)] is named[record.name] is record
        assert record in named
        assert record.name in named
    assert list(named) == list(records)
    assert len(named) == len(records)
    assert bool(named) == bool(records)


@given(collections, st.slices(4))
def test_a_slice_is_a_tuple(pair, part):
    assert pair[0](pair[1])[part] == pair[1][part]


@given(collections, collections)
def test_it_equals_hashes_prints_and_pickles_as_its_tuple(left, right):
    named, other = left[0](left[1]), right[0](right[1])
    assert named == left[1]
    assert left[1] == named
    assert (named == other) == (left[1] == right[1])
    assert hash(named) == hash(left[1])
    assert repr(named) == repr(left[1])
    assert pickle.loads(pickle.dumps(named)) == named
    assert to_json(named) == to_json(left[1])


@given(some.specs)
def test_a_spec_takes_lists_tuples_and_its_own_collections(spec):
    fields = {"inputs": spec.inputs, "outputs": spec.outputs}
    specs = [ExportSpec(**{name: kind(value) for name, value in fields.items()}) for kind in (list, tuple, iter)]
    specs.append(ExportSpec(**fields))
    assert all(built == specs[0] and digest(built) == digest(specs[0]) for built in specs)
    assert from_json(to_json(specs[0])) == specs[0]
    assert as_inputs(spec.inputs) is spec.inputs


@pytest.mark.parametrize("named", NAMED)
def test_it_is_no_record_of_stored_specs(named):
    assert named not in RECORDS.values()


def test_the_errors_name_what_there_is():
    assert refusal(UnknownName, lambda: ExportSpec().inputs["ids"]) == "no input 'ids'; known: none"
    assert "write ('ids',)" in refusal(InvalidSpec, ExportSpec, inputs="ids")
    assert "its name or its position" in refusal(InvalidSpec, lambda: Inputs()[1.5])
