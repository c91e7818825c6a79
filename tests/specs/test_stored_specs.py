import json
from pathlib import Path

import pytest
from attrs import NOTHING, fields
from refusals import refusal

from onnxfn import VERSION, ExportSpec, InvalidSpec, Plan
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.stored.serialize import RECORDS, SCHEMA, from_json, to_json

STORED = Path(__file__).parent / "stored"
"""The files of each form of the JSON, in a folder of its own. They stay as the version of their time wrote them."""

CLASSES = {"plan": Plan, "left_out": Plan, "remarks": Plan, "tensors": tuple}
"""The name of a file -> the class of its record, where it is no spec."""

FILES = sorted(STORED.glob("schema_*/*.json"))
IDS = [f"{file.parent.name} {file.stem}" for file in FILES]

FIELDS = json.loads((STORED / "fields.json").read_text())
"""The number of a form -> the name of each record -> its fields. The fields of a form never change: see below."""


def test_there_are_files_of_the_form():
    assert len([file for file in FILES if file.parent.name == f"schema_{SCHEMA}"]) >= 6


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_a_stored_record_is_read(file):
    record_class = CLASSES.get(file.stem, ExportSpec)
    record = from_json(file.read_text(), record=record_class)
    assert from_json(to_json(record), record=record_class) == record


@pytest.mark.parametrize("file", [file for file in FILES if file.stem == "bert"], ids=lambda file: file.parent.name)
def test_a_stored_spec_means_what_it_meant(file):
    spec = from_json(file.read_text())
    assert (spec.target.opset, spec.task, spec["input_ids"].generator) == (20, "text-classification", "token_ids")
    planned, stored = plan(spec), from_json((file.parent / "plan.json").read_text(), record=Plan)
    assert (planned.files, planned.parts[0].inputs) == (stored.files, stored.parts[0].inputs)


def test_a_text_has_the_number_of_its_form_and_the_version():
    data = json.loads(to_json(ExportSpec(name="bert")))
    assert data == {"schema": SCHEMA, "onnxfn": VERSION, "record": "ExportSpec", "name": "bert"}
    (first, _) = json.loads(to_json((ExportSpec(), ExportSpec())))
    assert first["schema"] == SCHEMA


def test_a_spec_of_a_newer_onnxfn_is_refused_by_name():
    newer = json.dumps({"schema": SCHEMA + 1, "onnxfn": "9.1.0", "record": "ExportSpec", "novel": 1})
    message = (
        f"the JSON has schema {SCHEMA + 1} of a newer onnxfn '9.1.0'; onnxfn {VERSION} reads schemas up to {SCHEMA}: "
        "install the newer one"
    )
    assert refusal(InvalidSpec, from_json, newer) == message
    assert refusal(InvalidSpec, from_json, f"[{newer}]") == message


@pytest.mark.parametrize("schema", ["2", 0, 2.0, True, None])
def test_a_form_that_is_no_number_is_refused(schema):
    text = json.dumps({"schema": schema, "record": "ExportSpec"})
    assert "is not a positive number" in refusal(InvalidSpec, from_json, text)


def test_a_record_inside_has_no_number():
    data = json.loads(to_json(takes("x", "n", "x")))
    data["inputs"][0]["schema"] = SCHEMA
    assert "schema" in refusal(InvalidSpec, from_json, json.dumps(data))


WHEN_FIELDS_CHANGE = (
    f"records have other fields than form {SCHEMA} of the JSON. An older onnxfn would refuse what this one writes, "
    "and must be told by a larger number: add 1 to SCHEMA in specs/stored/serialize.py, add the fields of all records "
    "under the new number to tests/specs/stored/fields.json, and files that this version writes in a folder schema_N"
)
"""What to do when `test_the_number_of_the_form_grows_when_a_record_changes` fails."""


def test_the_number_of_the_form_grows_when_a_record_changes():
    """A field that equality ignores is not stored."""
    current = {name: tuple(field.name for field in fields(record) if field.eq) for name, record in RECORDS.items()}
    stored = {name: tuple(names) for name, names in FIELDS.get(str(SCHEMA), {}).items()}
    assert sorted({name for name, _ in current.items() ^ stored.items()}) == [], WHEN_FIELDS_CHANGE
    assert max(map(int, FIELDS)) == SCHEMA, WHEN_FIELDS_CHANGE


@pytest.mark.parametrize(("number", "name"), [(number, name) for number, form in FIELDS.items() for name in form])
def test_no_record_or_field_of_a_stored_spec_goes_away(number, name):
    """A field that goes, or that has no default when it comes, would make stored files unreadable."""
    stored = FIELDS[number][name]
    every = fields(RECORDS[name])
    assert {*stored} <= {field.name for field in every}
    assert [field.name for field in every if field.name not in stored and field.default is NOTHING] == []
