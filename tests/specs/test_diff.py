"""What differs between two specs."""

import strategies as some
from attrs import evolve
from hypothesis import given, settings

import onnxfn
from onnxfn.specs.stored.diff import diff
from onnxfn.specs.stored.serialize import from_json, to_json

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)


def every(changes):
    return (*changes.added, *changes.removed, *changes.changed)


@settings(max_examples=50)
@given(some.specs, some.specs)
def test_there_are_changes_exactly_if_two_specs_differ(before, after):
    assert bool(every(diff(before, after))) == (before != after)
    assert every(diff(before, before)) == ()


@settings(max_examples=50)
@given(some.specs, some.specs)
def test_the_changes_back_are_those_there_with_the_two_sides_swapped(before, after):
    there, back = diff(before, after), diff(after, before)
    assert {(one.path, one.after, one.before) for one in every(there)} == {
        (one.path, one.before, one.after) for one in every(back)
    }


SHOWN = """\
4 changes
  added
    target.opset  20
  removed
    inputs.token_type_ids  axes=[batch_size, sequence_length], generator=segment_ids
  changed
    inputs (name)                              attention_mask -> mask
    dummies.generators.padding_mask.arguments  padding, right -> padding, left"""


def test_a_tensor_and_an_option_are_shown_by_name():
    edited = onnxfn.renamed(onnxfn.with_opset(onnxfn.without(BERT, "token_type_ids"), 20), attention_mask="mask")
    assert str(diff(BERT, onnxfn.compose(edited, onnxfn.padded("left")))) == SHOWN


def test_a_tensor_with_another_name_alone_is_one_change():
    (change,) = every(diff(BERT, onnxfn.renamed(BERT, input_ids="ids")))
    assert change == onnxfn.Change("inputs (name)", "input_ids", "ids")


def test_another_name_in_several_tasks_is_one_change():
    llama = onnxfn.ARCHITECTURES["llama"]
    (change,) = every(diff(llama, onnxfn.renamed(llama, logits="scores")))
    tasks = sorted(task.name for task in llama.tasks if "logits" in task.spec.outputs)
    assert len(tasks) > 2
    assert change == onnxfn.Change(f"tasks.{{{', '.join(tasks)}}}.spec.outputs (name)", "logits", "scores")


def test_two_outputs_of_one_value_are_two_changes_when_one_replaces_them():
    two, single = (onnxfn.compose(*(onnxfn.gives(name, "n", path=("y",)) for name in names)) for names in ("ab", "c"))
    assert {change.path for change in every(diff(two, single))} == {"outputs.a", "outputs (name)"}


def test_another_order_is_a_change():
    (change,) = diff(BERT, evolve(BERT, inputs=BERT.inputs[::-1])).changed
    assert (change.path, change.before) == ("inputs (order)", "input_ids, attention_mask, token_type_ids")


def test_changes_go_to_json_and_back():
    changes = diff(BERT, onnxfn.for_task(BERT, "fill-mask"))
    assert from_json(to_json(changes), record=onnxfn.Changes) == changes
