import json
import re

import pytest
from attrs import frozen, has
from refusals import refusal

from onnxfn.specs import records
from onnxfn.specs.algebra.compose import EMPTY
from onnxfn.specs.algebra.facts import always, takes
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import Constant, Generator, Read
from onnxfn.specs.results.measurements import Floors
from onnxfn.specs.stored.reports import Difference, Event, Exported, Report
from onnxfn.specs.stored.serialize import RECORDS, SCHEMA, from_json, to_json, to_plain
from onnxfn.specs.version import VERSION
from onnxfn.weights.write import WriteOptions

DIFFERENCE = Difference("model", "logits", ((2, 3), (1, 3)), 1e-7, 2.5e-6, 1e-5, "left-padded", passed=True)
REPORT = Report([DIFFERENCE], ["left-padded"])
PLAN = Plan([Part("model", PlannedSpec(inputs=takes("input_ids", "batch_size 4", "token_ids").inputs))])


def test_every_record_is_known():
    classes = {name for name, value in vars(records).items() if isinstance(value, type) and has(value)}
    assert classes - {"Named"} <= set(RECORDS)


def test_axes_are_written_as_their_pattern():
    (input_,) = to_plain(takes("input_ids", "batch_size heads= 4", "token_ids"))["inputs"]
    assert input_["axes"] == {"record": "AxisMap", "pattern": "batch_size heads= 4"}


def test_fields_with_their_neutral_value_are_left_out():
    target = {"record": "Target", "opset": 18}
    assert to_plain(ExportSpec(target=Target(opset=18))) == {"record": "ExportSpec", "target": target}


def test_a_constant_that_is_none_is_written():
    spec = always(past_key_values=None)
    assert to_plain(spec.call.constants[0]) == {"record": "Constant", "name": "past_key_values", "value": None}
    assert from_json(to_json(spec)) == spec


@pytest.mark.parametrize(
    "record",
    [
        Constant("past_key_values", None),
        Floors(kl=0.1),
        QUANTIZED_DTYPES["q4"],
        Event("capture", "model"),
        Event("capture", "model", 0.5),
        Plan([]),
        PLAN,
        REPORT,
        Report([]),
        Exported("out", ["model.onnx"], PLAN, 18, [("plan", 0.25)], REPORT),
        Exported("out", [], PLAN, 18, []),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_result_goes_to_json_and_back(record):
    restored = from_json(to_json(record), record=type(record))
    assert restored == record
    assert hash(restored) == hash(record)


@pytest.mark.parametrize("record", [WriteOptions(), frozen(type("Mine", (), {}))()], ids=["onnxfn's", "a user's"])
def test_a_record_that_from_json_does_not_read_is_not_written(record):
    message = refusal(InvalidSpec, to_json, record)
    assert message.startswith(f"{type(record).__name__} has no form in JSON; these records have one: Axis, AxisMap, ")
    assert refusal(InvalidSpec, to_json, (EMPTY, record)) == message


def test_the_indent_changes_the_text_alone():
    text = f'{{"schema": {SCHEMA}, "onnxfn": "{VERSION}", "record": "Read", "name": "heads", "source": "n_head"}}'
    assert to_json(Read("heads", "n_head"), indent=None) == text
    assert json.loads(to_json(Read("heads", "n_head"), indent=None)) == json.loads(to_json(Read("heads", "n_head")))


def test_several_records_go_to_json_as_a_list():
    several = (Read("heads", "n_head"), Read("width", "n_embd"))
    assert from_json(to_json(several), record=tuple) == several


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), {"a": 1}, [1], None, Generator("g", "constant", {"value": object()})]
)
def test_what_is_no_record_is_not_written(value):
    assert re.match(r"\w+ (has no form in JSON|is not a record, or holds) ?", refusal(InvalidSpec, to_json, value))
