"""`repr` of records: short, clear, and without what is not specified."""

import pytest
import strategies as some
from hypothesis import given

import onnxfn
from onnxfn import ARCHITECTURES, for_task
from onnxfn.specs.axes import axis_map
from onnxfn.specs.records import Constant, InputSpec
from onnxfn.specs.reports import Difference, Exported, Report
from onnxfn.specs.short_repr import LONGEST_REPR
from onnxfn.specs.spec import ExportSpec

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
