import json
import re
import traceback
from html import escape
from pathlib import Path

import pytest
import strategies as some
from attrs import has
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from public_names import VALUES

import onnxfn
from onnxfn.specs import records
from onnxfn.specs.algebra.compose import compose, from_config, quotient
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import gives, takes
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.records import Generator, InputSpec, NestedDummy, Normalizer, OutputSpec, Read
from onnxfn.specs.results.result_facts import everything, exported_facts
from onnxfn.specs.stored import reports as results

IDS = takes("input_ids", "batch_size sequence_length", "token_ids")
MASK = takes("mask", "batch_size heads= 4", "padding_mask", kind="bool", path=("extra", 0), when="use_mask")
BERT = compose(
    onnxfn.ExportSpec(name="bert", target=onnxfn.Target(opset=18, int_dtype="int64"), check=onnxfn.Check(atol=1e-5)),
    IDS,
    MASK,
    gives("logits", "batch_size _", when="head == 'linear'"),
    generates("token_ids", "integers", high=from_config("vocab_size")),
)
PLANNED = onnxfn.PlannedSpec(
    name="bert", inputs=BERT.inputs, outputs=BERT.outputs, dummies=BERT.dummies, check=BERT.check, target=BERT.target
)
PLAN = onnxfn.Plan([onnxfn.Part("encoder", PLANNED), onnxfn.Part("decoder", onnxfn.PlannedSpec(inputs=IDS.inputs))])
GOOD = onnxfn.Difference("encoder", "logits", ((2, 3),), 1e-7, 2e-6, 1e-5, "left-padded", passed=True)
BAD = onnxfn.Difference("encoder", "logits", ((2, 3),), 1e-2, 2e-1, 1e-5, "left-padded", passed=False)


@given(some.specs)
def test_a_spec_cannot_be_changed(spec):
    with pytest.raises(FrozenInstanceError):
        spec.target = None


@pytest.mark.parametrize(
    "record", [one for one in (*vars(records).values(), *vars(results).values()) if isinstance(one, type) and has(one)]
)
def test_a_record_accepts_no_unknown_attribute(record):
    assert "__dict__" not in dir(record)


def test_keyword_arguments_are_sorted_by_name():
    assert Generator("ids", "integers", {"low": 1, "high": 9}) == Generator("ids", "integers", {"high": 9, "low": 1})
    assert Generator("ids", "integers", {"low": 1, "high": 9}).arguments == (("high", 9), ("low", 1))


def test_the_place_of_a_tensor_is_its_path_or_its_name():
    assert InputSpec("ids", "b", "token_ids").forward_path == ("ids",)
    assert InputSpec("ids", "b", "token_ids", path=("past", 0)).forward_path == ("past", 0)
    assert OutputSpec("logits", "b").forward_path == ("logits",)
    assert OutputSpec("logits", "b", path=("scores",)).forward_path == ("scores",)


def test_a_part_has_inputs_and_outputs_as_names_and_symbols():
    assert PLAN.parts[0].inputs == {"input_ids": {0: "batch_size", 1: "sequence_length"}, "mask": {0: "batch_size"}}
    assert PLAN.parts[0].outputs == {"logits": {0: "batch_size"}}


def test_a_plan_has_the_files_and_the_task_of_its_parts():
    assert PLAN.files == ("encoder.onnx", "decoder.onnx")
    assert onnxfn.Plan([onnxfn.Part("model", onnxfn.PlannedSpec(task="fill-mask"))]).task == "fill-mask"
    assert (onnxfn.Plan(()).files, onnxfn.Plan(()).task) == ((), None)


def test_a_report_passes_when_every_output_does():
    assert onnxfn.Report([GOOD, GOOD]).passed
    assert not onnxfn.Report([GOOD, BAD]).passed
    assert not onnxfn.Report(()).passed


def test_an_export_has_the_inputs_and_outputs_of_its_first_part():
    exported = onnxfn.Exported("out", ["encoder.onnx"], PLAN, 18, [])
    assert (exported.inputs, exported.outputs) == (PLAN.parts[0].inputs, PLAN.parts[0].outputs)


def test_getters_and_generators_print_as_calls():
    assert str(quotient("hidden_size", quotient("heads", "groups"))) == "quotient(hidden_size, quotient(heads, groups))"
    assert str(Generator("ids", "integers", {"low": 1, "high": 9})) == "integers(high=9, low=1)"


def test_a_spec_prints_as_a_table():
    assert str(BERT).splitlines() == [
        "bert · opset 18 · atol 1e-05",
        "  inputs",
        "    input_ids  int64[batch_size, sequence_length]  integers(high=from_config(vocab_size))",
        f"    mask       bool[batch_size, heads=, 4]         {'padding_mask':38}  forward: extra.0 when use_mask",
        "  outputs",
        "    logits  float[batch_size, _]  when head == 'linear'",
    ]


def test_a_spec_without_a_task_prints_its_tasks():
    spec = compose(IDS, onnxfn.ExportSpec(tasks=[onnxfn.Overlay("fill-mask"), onnxfn.Overlay("question-answering")]))
    assert str(spec).splitlines()[-3:] == ["  tasks", "    fill-mask", "    question-answering"]
    assert "\n  tasks" not in str(compose(spec, onnxfn.ExportSpec(task="fill-mask")))


def test_a_renamed_input_prints_where_forward_takes_it():
    assert str(renamed(IDS, input_ids="ids")).endswith("forward: input_ids")


def test_a_plan_prints_every_file():
    lines = str(PLAN).splitlines()
    assert lines[0] == "encoder.onnx · bert · opset 18 · atol 1e-05"
    assert any(line.startswith("decoder.onnx · spec") for line in lines)


def test_a_report_prints_its_status_its_figures_and_its_cases():
    assert str(onnxfn.Report([BAD], ["left-padded"])).splitlines() == [
        "check FAILED",
        "  ONNX Runtime against PyTorch",
        "    output           error    bound    error/bound  status  worst at",
        "    encoder: logits  1.0e-02  1.0e-05  1e+03        FAILED  left-padded",
        "  cases",
        "    left-padded",
    ]


def test_an_export_without_a_check_prints_that_it_is_unchecked():
    exported = onnxfn.Exported("out", ["out/encoder.onnx"], PLAN, 18, [("capture", 1.5)])
    assert str(exported).splitlines()[0] == "bert · opset 18 · unchecked"
    assert everything(exported_facts(exported)).splitlines()[-2:] == ["  seconds", "    capture 1.50"]


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        (onnxfn.AxisFacts("sequence_length", low=4), "sequence_length from 4"),
        (onnxfn.AxisFacts("n", low=2, high=512), "n from 2 up to 512"),
        (onnxfn.AxisFacts("n", 8, "size", "size", "is_fixed", "N"), "n is size when is_fixed traced at 8 named N"),
    ],
)
def test_an_axis_prints_what_is_known_of_it(axis, said):
    assert str(axis) == said


@pytest.mark.parametrize("record", [BERT, onnxfn.Plan(PLAN.parts[:1]), PLAN.parts[0]])
def test_a_notebook_shows_a_record_as_it_prints(record):
    assert re.fullmatch(r"<pre [^>]*>(.*)</pre>", record._repr_html_(), re.DOTALL)[1] == escape(str(record))


def test_a_record_that_does_not_print_in_a_way_of_its_own_has_no_page():
    assert not hasattr(Read("n", "m"), "_repr_html_")


# Refusals

NAMES = {**VALUES, "Part": onnxfn.Part, "Plan": onnxfn.Plan}
NAMES |= {"PlannedSpec": onnxfn.PlannedSpec, "NestedDummy": NestedDummy, "Normalizer": Normalizer, "Read": Read}

MOST_FRAMES = 2
PACKAGE = str(Path(onnxfn.__file__).parent)

CALLS = dict(json.loads(Path(__file__).with_name("refused_records.json").read_text()))
"""A call, and a part of its message."""


@pytest.mark.parametrize(("call", "words"), CALLS.items(), ids=CALLS)
def test_a_refusal_has_one_line_and_two_frames(call, words):
    with pytest.raises(onnxfn.OnnxfnError) as raised:
        eval(call, dict(NAMES))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    frames = traceback.extract_tb(raised.value.__traceback__)
    ours = [frame.name for frame in frames if frame.filename.startswith((PACKAGE, "<attrs generated"))]
    assert len(ours) <= MOST_FRAMES, ours
    assert raised.value.__cause__ is None
