import pytest
import strategies as some
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from own_processes import printed

import onnxfn
from onnxfn import case, compose, digest, generates, gives, reads, sized, takes
from onnxfn.specs.stored.diff import diff
from onnxfn.specs.stored.serialize import from_json, to_json

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)


def every(changes):
    return (*changes.added, *changes.removed, *changes.changed)


@given(some.specs, some.specs)
def test_two_specs_that_differ_have_changes_and_those_back_have_the_two_sides_swapped(before, after):
    there, back = diff(before, after), diff(after, before)
    assert bool(there) == bool(every(there)) == (before != after)
    assert every(diff(before, before)) == ()
    changes = {(one.path, one.after, one.before) for one in every(there)}
    assert changes == {(one.path, one.before, one.after) for one in every(back)}


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


# A digest is equal for equal meaning, in every process

SPEC = compose(takes("x", "batch_size past+now", "noise"), gives("y", "batch_size _"), sized(batch_size=2))
DIGEST = "bd21fb0eb619a34ecab4fbfeade8fd9e6266ac7fbb5a1766e3f2d42d21156f54"
"""The digest of SPEC in onnxfn 0.1.0. A later version has the same: it may be the key of what others have stored."""


def test_the_digest_of_a_spec_stays_the_same_over_versions():
    assert digest(SPEC) == DIGEST


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_digest_is_the_same_in_another_process(seed):
    code = "import sys, onnxfn; print(onnxfn.digest(onnxfn.from_json(sys.stdin.read())), 'torch' in sys.modules)"
    assert printed("-c", code, given=to_json(SPEC), PYTHONHASHSEED=seed).split() == [DIGEST, "False"]


@given(some.specs)
def test_equal_specs_have_equal_digests(spec):
    assert digest(from_json(to_json(spec), trust=some.TRUST)) == digest(spec)


FACTS = (
    sized(a=1),
    sized(b=2),
    generates("ids", "integers", high=9),
    generates("mask", "mask", padding="left"),
    reads(heads="n_head"),
    reads(width="n_embd"),
    onnxfn.always(use_cache=False),
    onnxfn.always(return_dict=True),
    onnxfn.with_shapes(batch_size=1)(onnxfn.EMPTY),
    onnxfn.with_shapes(width=4)(onnxfn.EMPTY),
)


@given(st.permutations(FACTS))
def test_the_order_of_facts_does_not_change_the_digest(facts):
    assert digest(compose(SPEC, *facts)) == digest(compose(SPEC, *FACTS))


def test_a_number_and_a_path_have_the_same_digest_in_each_spelling():
    assert digest(generates("x", "normal", deviation=2)) == digest(generates("x", "normal", deviation=2.0))
    assert digest(takes("x", "n", "x", path=("x",))) == digest(takes("x", "n", "x"))


@pytest.mark.parametrize(
    "other",
    [
        compose(gives("z", "batch_size"), SPEC),
        compose(SPEC, sized(batch_size=3)),
        compose(SPEC, takes("x", "batch_size past", "noise")),
        onnxfn.with_opset(SPEC, 20),
        compose(SPEC, case("one")),
    ],
    ids=["output", "size", "axes", "opset", "case"],
)
def test_another_meaning_has_another_digest(other):
    assert digest(other) != DIGEST


def test_the_order_of_inputs_has_a_meaning():
    two = compose(SPEC, takes("w", "batch_size", "noise"))
    assert digest(evolve(two, inputs=two.inputs[::-1])) != digest(two)


def test_a_plan_and_its_json_have_a_digest():
    plan = onnxfn.plan(SPEC)
    assert digest(plan) == digest(from_json(to_json(plan), record=onnxfn.Plan))
