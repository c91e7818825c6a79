"""`repr` of records: short, clear, and without what is not specified."""

import attrs
import pytest
import strategies as some
from hypothesis import given
from public_names import VALUES

import onnxfn
from onnxfn import ARCHITECTURES, for_task
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import axis_map
from onnxfn.specs.records import Constant, InputSpec
from onnxfn.specs.short_repr import LONGEST_REPR
from onnxfn.specs.stored.reports import Difference, Exported, Report
from onnxfn.specs.stored.serialize import RECORDS

LLAMA = for_task(ARCHITECTURES["llama"], "text-generation-with-past")
CONFIG = {"vocab_size": 99, "num_hidden_layers": 30, "num_attention_heads": 4, "hidden_size": 64}


@given(some.records)
def test_the_repr_of_any_record_is_short_and_one_line(record):
    assert len(repr(record)) <= LONGEST_REPR
    assert repr(record).startswith((f"{type(record).__name__}(", "axis_map("))
    assert len(repr(record).splitlines()) == 1


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_the_repr_of_a_row_says_its_name_and_numbers(model_type):
    spec = ARCHITECTURES[model_type]
    assert len(repr(spec)) <= LONGEST_REPR
    assert repr(spec).startswith(f"ExportSpec({model_type}, ")


def test_every_record_of_a_user_has_a_short_repr():
    """attrs would write one with all fields."""
    public = VALUES.values()
    records = {*RECORDS.values(), *(each for each in public if isinstance(each, type) and attrs.has(each))}
    long = [each.__name__ for each in records if each.__repr__.__code__.co_filename.startswith("<attrs generated")]
    assert sorted(long) == []
    assert len(records) > 50


LONG = {
    "named": lambda: onnxfn.plan(LLAMA, CONFIG).parts[0].spec.inputs,
    "changes": lambda: onnxfn.diff(LLAMA, onnxfn.EMPTY),
    "loaded": lambda: onnxfn.Loaded("out", [f"out/text_model_{number}.onnx" for number in range(30)]),
    "verification": lambda: onnxfn.Verification(
        "out", 2, 9, faults=30 * ("model.onnx is damaged: 3 bytes are expected",)
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_record_has_a_short_repr(name):
    text = repr(LONG[name]())
    assert len(text) <= LONGEST_REPR
    assert len(text.splitlines()) == 1


def test_records_with_names_print_as_their_names_if_they_are_many():
    assert repr(LLAMA.inputs) == "Named(input_ids, attention_mask, position_ids)"
    names = "Named(input_ids, attention_mask, past_key_values.{0..29}.key, past_key_values.{0..29}.value, position_ids)"
    assert repr(LONG["named"]()) == names
    assert repr(LLAMA.inputs[:1]) == repr((LLAMA.inputs[0],))


def test_a_spec_is_its_name_its_task_and_the_number_of_its_tensors():
    spec = for_task(ARCHITECTURES["bert"], "text-classification")
    assert repr(spec).startswith("ExportSpec(bert, text-classification, 3 inputs, 1 output")


def test_a_short_record_can_be_read_back():
    record = InputSpec("ids", "batch_size past+now", "token_ids", kind="int", layer=3)
    text = "InputSpec(name='ids', axes=axis_map('batch_size past+now'), generator='token_ids', layer=3)"
    assert repr(record) == text
    assert eval(text, {"InputSpec": InputSpec, "axis_map": axis_map}) == record


def test_what_is_specified_is_shown_although_it_is_none():
    assert repr(Constant("past", None)) == "Constant(name='past', value=None)"
    assert repr(ExportSpec()) == "ExportSpec()"


def test_results_say_their_verdict():
    difference = Difference("model", "logits", ((1, 2),), 1e-7, 1e-7, 1e-5, "one", passed=True)
    report = Report([difference], ["one"])
    plan = onnxfn.plan(LLAMA, CONFIG)
    assert repr(report) == "Report(check passed, 1 output, 1 case)"
    result = Exported("out", ["out/model.onnx"], plan, 18, [("plan", 0.1)], report)
    assert repr(result) == "Exported(llama, text-generation-with-past, opset 18, check passed, 1 file)"
    part = "Part(name='model', spec=PlannedSpec(llama, text-generation-with-past, 63 inputs, 61 outputs, "
    assert repr(plan).startswith(f"Plan(parts=({part}")
