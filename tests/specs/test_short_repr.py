import re

import attrs
import pytest
import strategies as some
from hypothesis import given
from hypothesis import strategies as st
from public_names import VALUES

import onnxfn
from onnxfn.specs.axes import axis_map
from onnxfn.specs.records import Constant, InputSpec
from onnxfn.specs.short_repr import LONGEST_REPR, grouped_rows, layer_groups, number_ranges
from onnxfn.specs.stored.serialize import RECORDS

LLAMA = onnxfn.for_task(onnxfn.ARCHITECTURES["llama"], "text-generation-with-past")
CONFIG = {"vocab_size": 99, "num_hidden_layers": 30, "num_attention_heads": 4, "hidden_size": 64}


@given(some.records)
def test_the_repr_of_any_record_is_short_and_one_line(record):
    assert len(repr(record)) <= LONGEST_REPR
    assert repr(record).startswith((f"{type(record).__name__}(", "axis_map("))
    assert len(repr(record).splitlines()) == 1


@pytest.mark.parametrize("model_type", onnxfn.ARCHITECTURES)
def test_the_repr_of_a_row_says_its_name_and_numbers(model_type):
    spec = onnxfn.ARCHITECTURES[model_type]
    assert len(repr(spec)) <= LONGEST_REPR
    assert repr(spec).startswith(f"ExportSpec({model_type}, ")


def test_every_record_of_a_user_has_a_short_repr():
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
    spec = onnxfn.for_task(onnxfn.ARCHITECTURES["bert"], "text-classification")
    assert repr(spec).startswith("ExportSpec(bert, text-classification, 3 inputs, 1 output")


def test_a_short_record_can_be_read_back():
    record = InputSpec("ids", "batch_size past+now", "token_ids", kind="int", layer=3)
    text = "InputSpec(name='ids', axes=axis_map('batch_size past+now'), generator='token_ids', layer=3)"
    assert repr(record) == text
    assert eval(text, {"InputSpec": InputSpec, "axis_map": axis_map}) == record


def test_what_is_specified_is_shown_although_it_is_none():
    assert repr(Constant("past", None)) == "Constant(name='past', value=None)"
    assert repr(onnxfn.ExportSpec()) == "ExportSpec()"


def test_results_say_their_verdict():
    difference = onnxfn.Difference("model", "logits", ((1, 2),), 1e-7, 1e-7, 1e-5, "one", passed=True)
    report = onnxfn.Report([difference], ["one"])
    plan = onnxfn.plan(LLAMA, CONFIG)
    assert repr(report) == "Report(check passed, 1 comparison, 1 case)"
    result = onnxfn.Exported("out", ["out/model.onnx"], plan, 18, [("plan", 0.1)], report)
    assert repr(result) == "Exported(llama, text-generation-with-past, opset 18, check passed, 1 file)"
    part = "Part(name='model', spec=PlannedSpec(llama, text-generation-with-past, 63 inputs, 61 outputs, "
    assert repr(plan).startswith(f"Plan(parts=({part}")


# Rows that differ in the number of a layer alone, as one row

RANGES = re.compile(r"\{([0-9.,]+)\}")

words = st.sampled_from(("past", "present", "key", "value", "0", "1", "2", "07", "x1", "1x"))
names = st.lists(words, min_size=1, max_size=4).map(".".join)
cells = st.sampled_from(("float[2, 3]", "float[2, 4]", "forward: cache.0.keys", "forward: cache.1.keys", "a.0.b.1", ""))
any_rows = st.lists(st.tuples(names, cells) | st.tuples(names), max_size=12)

layer_numbers = st.sets(st.integers(0, 120), min_size=1, max_size=12).map(sorted)


def numbers_of(ranges):
    """The numbers that `0..2,5` means."""
    ends = [[int(end) for end in part.split("..")] for part in ranges.split(",")]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


def expanded(row):
    columns = [numbers_of(ranges) for ranges in RANGES.findall("\n".join(row))]
    for numbers in zip(*columns, strict=True) if columns else [()]:
        following = iter(map(str, numbers))
        yield tuple(RANGES.sub(lambda _, following=following: next(following), "\n".join(row)).split("\n"))


@given(any_rows)
def test_the_groups_are_a_partition_of_the_rows_and_each_is_printed_as_one_that_means_its_rows(rows):
    groups, printed = layer_groups(rows), grouped_rows(rows)
    assert sorted(index for group in groups for index in group) == list(range(len(rows)))
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    assert all(group == sorted(group) for group in groups)
    for row, group in zip(printed, groups, strict=True):
        assert list(expanded(row)) == [rows[index] for index in group]
    assert grouped_rows(printed) == printed


@given(layer_numbers, st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
def test_the_cache_of_a_decoder_is_one_row_for_each_kind_of_tensor(numbers, kinds):
    rows = [(f"past.{number}.{kind}", "[batch]", f"cache.{number}.0.{kind}") for number in numbers for kind in kinds]
    printed = grouped_rows(rows)
    assert len(printed) == len(kinds)
    assert [row for layer in zip(*map(expanded, printed), strict=True) for row in layer] == rows


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_two_kinds_of_layers_are_two_groups(attends):
    rows = [(f"past.{layer}.state", "[2, 3]" if attends[layer] else "[7]") for layer in range(len(attends))]
    printed = grouped_rows(rows)
    assert len(printed) == len(set(attends))
    for row in printed:
        assert list(expanded(row)) == [other for other in rows if other[1] == row[1]]


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        ([("past.0.key",), ("past.1.key",)], ["past.{0,1}.key"]),
        ([(f"past.{layer}.key",) for layer in range(30)], ["past.{0..29}.key"]),
        ([(f"past.{layer}.key",) for layer in (0, 2, 4)], ["past.{0,2,4}.key"]),
        ([("past.1.key",), ("past.0.key",)], ["past.1.key", "past.0.key"]),
        ([("maps.0.0",), ("maps.0.1",), ("maps.1.0",), ("maps.1.1",)], ["maps.0.{0,1}", "maps.1.{0,1}"]),
        ([("maps.0.0",), ("maps.1.1",)], ["maps.0.0", "maps.1.1"]),
        ([("logits",), ("logits",)], ["logits", "logits"]),
        ([("layer_0",), ("layer_1",)], ["layer_0", "layer_1"]),
        ([("hidden.0", "out.1"), ("hidden.1", "out.2")], ["hidden.{0,1}"]),
        ([("hidden.0", "out.1"), ("hidden.1", "out.3")], ["hidden.0", "hidden.1"]),
    ],
)
def test_names_are_printed_as(rows, printed):
    assert [row[0] for row in grouped_rows(rows)] == printed


@given(layer_numbers)
def test_ranges_mean_their_numbers(numbers):
    assert numbers_of(number_ranges(numbers)) == numbers
