"""Edits, and the words that make one-line specs; their laws are in test_laws.py."""

import pytest
from refusals import refusal

from onnxfn import InvalidSpec, UnknownName, case, from_json, plan, renamed, spec_for, to_json
from onnxfn.specs.algebra.compose import EMPTY, compose
from onnxfn.specs.algebra.facts import always, gives, patched, takes
from onnxfn.specs.algebra.spec import OPSETS, Call, Check, ExportSpec, Overlay, Target
from onnxfn.specs.axes import axis_map, pattern
from onnxfn.specs.edits.axes import with_axis
from onnxfn.specs.edits.tensors import only_tasks, with_dtypes, with_opset, with_output, with_tolerance, without
from onnxfn.specs.records import Constant, Edit, InputSpec, OutputSpec, Patch
from onnxfn.specs.tasks.tasks import EDITS, edited, for_task

TOKENS = "batch_size sequence_length"
BERT = compose(
    ExportSpec(name="bert"),
    takes("input_ids", TOKENS, "token_ids"),
    takes("token_type_ids", TOKENS, "segment_ids"),
    ExportSpec(
        tasks=[
            Overlay("fill-mask", compose(gives("logits", f"{TOKENS} _"), takes("labels", TOKENS, "token_ids"))),
            Overlay("feature-extraction", gives("last_hidden_state", f"{TOKENS} _")),
        ]
    ),
)


def test_facts_are_specs_of_one_record():
    written = InputSpec("x", axis_map("batch_size"), "ids", "float", ("a", 0), "b")
    assert takes("x", "batch_size", "ids", kind="float", path=("a", 0), when="b") == ExportSpec(inputs=[written])
    output = OutputSpec("y", axis_map("batch_size _"), ("a",), "b")
    assert gives("y", "batch_size _", path=("a",), when="b") == ExportSpec(outputs=[output])
    constants = [Constant("use_cache", value=False), Constant("mode", "fast")]
    assert always(use_cache=False, mode="fast") == ExportSpec(call=Call(constants=constants))
    patch = Patch("m:A.f", "p:f", "branches")
    assert patched("m:A.f", by="p:f", why="branches") == ExportSpec(call=Call(patches=[patch]))


def test_removing_nothing_changes_nothing():
    assert without(BERT) == BERT


def test_an_output_is_added_at_the_end():
    made = with_output(for_task(BERT, "fill-mask"), "pooler_output", "batch_size _", path=("pooled",))
    assert made.outputs[-1] == OutputSpec("pooler_output", "batch_size _", ("pooled",))
    assert [one.name for one in made.outputs] == ["logits", "pooler_output"]


def test_an_output_of_the_same_name_is_replaced_in_its_position():
    made = with_output(with_output(for_task(BERT, "fill-mask"), "b", "x"), "logits", "batch_size 2")
    assert made.outputs == (OutputSpec("logits", "batch_size 2"), OutputSpec("b", "x"))


@pytest.mark.parametrize("opset", OPSETS)
def test_each_possible_opset_is_one_that_a_spec_may_have(opset):
    assert with_opset(EMPTY, opset) == ExportSpec(target=Target(opset=opset))


@pytest.mark.parametrize("opset", [-1, 0, 17, 29, 99, "20", 20.0])
def test_another_opset_is_refused(opset):
    message = f"no opset {opset!r}; possible: 18 to 28"
    assert refusal(InvalidSpec, with_opset, BERT, opset) == message
    assert refusal(InvalidSpec, Target, opset=opset) == message


def test_a_tolerance_or_a_type_that_is_left_out_stays():
    spec = with_dtypes(with_tolerance(EMPTY, atol=1e-3, rtol=1e-2), int="int32")
    target = Target(int_dtype="int32", float_dtype="float16")
    edited_spec = with_dtypes(with_tolerance(spec, atol=0.0), float="float16")
    assert edited_spec == ExportSpec(check=Check(atol=0.0, rtol=1e-2), target=target)


def test_an_axis_is_added_to_the_inputs_that_start_with_the_pattern():
    spec = compose(BERT, takes("pixels", "batch_size height", "pixels"), takes("xpath", f"{TOKENS} depth=", "ids"))
    made = with_axis(spec, "num_choices", at=1, starting=TOKENS)
    assert {one.name: pattern(one.axes) for one in made.inputs} == {
        "input_ids": "batch_size num_choices sequence_length",
        "token_type_ids": "batch_size num_choices sequence_length",
        "pixels": "batch_size height",
        "xpath": "batch_size num_choices sequence_length depth=",
    }
    assert made.outputs == spec.outputs


def test_only_tasks_keeps_the_given_order():
    names = [one.name for one in only_tasks(BERT, "feature-extraction", "fill-mask").tasks]
    assert names == ["feature-extraction", "fill-mask"]
    assert only_tasks(BERT).tasks == ()


# Edits as data


def test_edits_as_data_are_applied_in_order():
    edits = (Edit("with_opset", {"opset": 18}), Edit("with_opset", {"opset": 19}))
    assert edited(BERT, edits) == with_opset(BERT, 19)
    assert edited(BERT, ()) == BERT


def test_an_unknown_edit_is_refused_with_the_closest():
    message = refusal(UnknownName, edited, BERT, (Edit("with_opsets", {"opset": 18}),))
    assert message == f"no edit 'with_opsets'; known: {', '.join(EDITS)}; did you mean 'with_opset'?"


# Other names for the tensors of a cache

LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
NAMES = {
    f"{old}.{{layer}}.{kind}": f"{new}_{kind}_{{layer}}"
    for old, new in (("past_key_values", "past"), ("present", "present"))
    for kind in ("key", "value")
}


def test_each_layer_of_a_cache_has_the_new_name_and_the_old_place():
    spec = renamed(spec_for("llama", "text-generation-with-past"), **NAMES)
    part = plan(spec, LLAMA).parts[0]
    past = [name for name in part.inputs if "past" in name]
    assert past == ["past_key_0", "past_value_0", "past_key_1", "past_value_1"]
    assert list(part.outputs)[1:] == ["present_key_0", "present_value_0", "present_key_1", "present_value_1"]
    assert part.spec.inputs["past_key_1"].forward_path == ("past_key_values", "1", "keys")
    names = [f"{kind}_{layer}" for kind in ("key", "value") for layer in range(2)]
    assert {(each.input, each.output) for each in part.spec.feedback} == {(f"past_{n}", f"present_{n}") for n in names}
    assert from_json(to_json(spec)) == spec


def test_a_name_reaches_the_cache_of_every_task_and_part():
    spec = renamed(spec_for("t5"), **{"past_key_values.{layer}.encoder.key": "past_cross_{layer}"})
    chosen = for_task(spec, "text2text-generation-with-past")
    config = {"num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 4, "d_model": 8, "vocab_size": 9}
    assert "past_cross_0" in plan(chosen, config)["decoder_model_merged"].inputs


def test_an_input_of_a_case_has_the_new_name():
    spec = compose(takes("a", "n", "normal"), gives("y", "n"), case("short", takes("a", "n", "constant")))
    assert [tensor.name for tensor in renamed(spec, a="b").cases["short"].spec.inputs] == ["b"]
