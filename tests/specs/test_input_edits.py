"""Edits of inputs: another dtype, other dummies, another position, logits of the last tokens alone."""

import numpy as np
import pytest
from refusals import refusal

import onnxfn
from onnxfn import with_input_order as ordered
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP as NAME

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)
CONFIG = {"vocab_size": 50, "type_vocab_size": 2}
LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}


def test_one_input_has_a_dtype_of_its_own_in_every_task():
    edited = onnxfn.with_dtypes(BERT, input_ids="int32")
    dtypes = {name: str(array.dtype) for name, array in onnxfn.dummy_inputs(edited, CONFIG, "np").items()}
    assert dtypes == {"input_ids": "int32", "attention_mask": "int64", "token_type_ids": "int64"}
    assert onnxfn.for_task(edited, "multiple-choice")["input_ids"].kind == "int32"


def test_one_input_has_other_dummies_in_every_case():
    edited = onnxfn.with_generator(BERT, "token_type_ids", "constant", value=1)
    arrays = onnxfn.dummy_inputs(edited, CONFIG, "np")
    assert arrays["token_type_ids"].all()
    assert (arrays["input_ids"] == onnxfn.dummy_inputs(BERT, CONFIG, "np")["input_ids"]).all()
    used = {generator.name for generator in onnxfn.plan(edited, CONFIG).parts[0].spec.dummies.generators}
    assert {"values of token_type_ids", "token_ids", "padding_mask"} <= used
    message = refusal(onnxfn.UnknownName, onnxfn.with_generator, BERT, "token_type", "normal")
    assert "did you mean 'token_type_ids'?" in message


def test_inputs_are_in_another_order_with_those_of_a_cache():
    names = list(onnxfn.inputs(ordered(BERT, "token_type_ids", "input_ids")))
    assert names == ["token_type_ids", "input_ids", "attention_mask"]
    edited = ordered(onnxfn.spec_for("llama"), "past_key_values.1.key", "attention_mask")
    names = list(onnxfn.inputs(onnxfn.for_task(edited, "text-generation-with-past"), LLAMA))
    assert names[:3] == ["past_key_values.1.key", "attention_mask", "input_ids"]
    assert len(names) == 7


def test_an_order_follows_new_names_and_removed_inputs():
    edited = ordered(BERT, "token_type_ids", "attention_mask")
    renamed = onnxfn.renamed(edited, token_type_ids="segments")
    assert list(onnxfn.inputs(renamed)) == ["segments", "attention_mask", "input_ids"]
    assert list(onnxfn.inputs(onnxfn.without(edited, "token_type_ids"))) == ["attention_mask", "input_ids"]


def test_a_constant_takes_the_place_of_an_input_in_every_task():
    edited = onnxfn.with_constants(BERT, token_type_ids=0)
    assert list(onnxfn.inputs(edited)) == ["input_ids", "attention_mask"]
    assert list(onnxfn.inputs(onnxfn.for_task(edited, "multiple-choice"), CONFIG)) == ["input_ids", "attention_mask"]
    assert onnxfn.from_json(onnxfn.to_json(edited)) == edited
    planned = onnxfn.plan(onnxfn.with_axis_names(edited, batch_size="N")).parts[0].spec.call.constants
    (filled,) = [constant for constant in planned if constant.name == "token_type_ids"]
    assert (filled.value, str(filled.axes), filled.kind) == (0, "[N, sequence_length]", "int")


@pytest.mark.parametrize(
    ("edit", "masks"),
    [
        (onnxfn.renamed(attention_mask="mask"), ["mask int64"]),
        (onnxfn.with_dtypes(attention_mask="int32"), ["attention_mask int32"]),
        (onnxfn.with_generator("attention_mask", "constant", value=1), ["attention_mask int64"]),
        (onnxfn.without("attention_mask"), []),
        (onnxfn.with_constants(attention_mask=1), []),
    ],
    ids=["renamed", "dtype", "generator", "without", "constant"],
)
def test_an_edit_of_the_mask_holds_in_a_task_that_is_chosen_later(edit, masks):
    spec = onnxfn.for_task(edit(onnxfn.spec_for("llama")), "text-generation-with-past")
    arrays = onnxfn.dummy_inputs(spec, LLAMA, "np", past_sequence_length=5, sequence_length=2)
    assert [f"{name} {array.dtype}" for name, array in arrays.items() if "mask" in name] == masks
    assert all(array.shape == (2, 7) for name, array in arrays.items() if "mask" in name)
    planned = onnxfn.plan(spec, LLAMA).parts[0].spec
    constants = [constant for constant in planned.call.constants if constant.axes is not None]
    axes = ["[batch_size, past_sequence_length + sequence_length]"] if "with_constants" in edit.__name__ else []
    assert [str(constant.axes) for constant in constants] == axes


def test_position_ids_are_an_input_of_an_encoder_in_the_task_that_it_has():
    classifier = onnxfn.for_task(BERT, "text-classification")
    arrays = onnxfn.dummy_inputs(onnxfn.compose(classifier, onnxfn.positions), CONFIG, "np")
    assert arrays["position_ids"][:, :4].tolist() == [[0, 1, 2, 3]] * 2


def test_other_dummies_of_the_mask_of_a_decoder_have_its_axes_with_a_past():
    pix2struct = onnxfn.for_task(onnxfn.spec_for("pix2struct"), "image-to-text-with-past")
    edited = onnxfn.with_generator(pix2struct, "decoder_attention_mask", "constant", value=1)
    inputs_of = [onnxfn.with_behavior(spec, "decoder", past="both").inputs for spec in (pix2struct, edited)]
    axes = [{tensor.forward_path: tensor.axes for tensor in tensors} for tensors in inputs_of]
    assert axes[0] == axes[1]


# Logits of the last tokens alone

TASKS = ("text-generation", "text-generation-with-past")


@pytest.mark.parametrize("task", TASKS)
def test_the_input_is_a_number_and_the_logits_have_an_axis_of_their_own(task):
    part = onnxfn.plan(onnxfn.with_input(onnxfn.spec_for("llama", task), NAME), LLAMA).parts[0]
    assert part.inputs[NAME] == {}
    assert part.outputs["logits"] == {0: "batch_size", 1: "num_logits"}
    assert part.spec.inputs[NAME].kind == "int64"


def test_a_spec_without_a_task_has_it_in_the_tasks_that_write_text():
    spec = onnxfn.with_input(onnxfn.spec_for("llama"), NAME)
    chosen = {overlay.name: NAME in onnxfn.for_task(spec, overlay.name) for overlay in spec.tasks}
    assert {name for name, has in chosen.items() if has} == {*TASKS}
    for task in TASKS:
        (first,) = onnxfn.plan(onnxfn.for_task(spec, task), LLAMA).parts
        (later,) = onnxfn.plan(onnxfn.with_input(onnxfn.for_task(onnxfn.spec_for("llama"), task), NAME), LLAMA).parts
        assert (first.inputs, first.outputs) == (later.inputs, later.outputs)


def test_the_edit_is_its_own_repetition_and_goes_to_json():
    spec = onnxfn.with_input(onnxfn.spec_for("llama", TASKS[1]), NAME)
    assert onnxfn.with_input(NAME)(spec) == spec == onnxfn.from_json(onnxfn.to_json(spec))


def test_all_logits_are_kept_but_in_cases_of_their_own():
    spec = onnxfn.plan(onnxfn.with_input(onnxfn.spec_for("llama", TASKS[1]), NAME), LLAMA).parts[0].spec
    kept = {case.name: case.dummies.generators["logits_to_keep"].arguments[0][1] for case in spec.cases if case.name
            in ("last logit", "last logits", "more logits than tokens")}  # fmt: skip
    assert kept == {"last logit": 1, "last logits": 3, "more logits than tokens": 9}
    assert dict(spec.dummies.generators["logits_to_keep"].arguments) == {"value": 0}
    spec = onnxfn.with_input(onnxfn.spec_for("llama", TASKS[1]), NAME)
    assert onnxfn.dummy_inputs(spec, LLAMA, "np")[NAME] == np.int64(0)


@pytest.mark.parametrize(("model_type", "task"), [("bert", "fill-mask"), ("llama", "token-classification")])
def test_a_model_that_writes_no_text_has_no_such_input(model_type, task):
    line = refusal(onnxfn.UnknownName, onnxfn.with_input, onnxfn.spec_for(model_type, task), NAME)
    assert f"with_input cannot add '{NAME}' to {model_type}; it can add: " in line


# Inputs and outputs of another float type than the weights

T5 = {"vocab_size": 99, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 4, "d_model": 8}


def half(model_type, task):
    return onnxfn.with_dtypes(onnxfn.spec_for(model_type, task), float="float16", io="float32")


def kinds(part):
    return {tensor.name: tensor.kind for tensor in part.spec.inputs}


@pytest.mark.parametrize("decoders", ["merged", "separate"])
def test_what_an_encoder_hands_to_a_decoder_has_the_type_of_inputs_and_outputs(decoders):
    encoder, *others = onnxfn.plan(half("t5", "text2text-generation-with-past"), T5, decoders=decoders)
    assert encoder.spec.io_names == ("last_hidden_state",)
    fillers = [filler for part in others for filler in part.filler]
    for part in (*others, *fillers):
        assert kinds(part)["encoder_hidden_states"] == "float32"
        assert not any(name.startswith(("past", "present")) for name in part.spec.io_names)


def test_the_same_type_changes_nothing():
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    assert onnxfn.plan(onnxfn.with_dtypes(spec, io="float32"), LLAMA)[0].spec.io_names == ()
    both = onnxfn.plan(onnxfn.with_dtypes(spec, float="float16", io="float16"), LLAMA)[0].spec
    assert (both.io_names, both.inputs) == ((), onnxfn.plan(spec, LLAMA)[0].spec.inputs)


def test_the_plan_shows_the_type():
    lines = str(onnxfn.plan(half("llama", "text-generation-with-past"), LLAMA)).splitlines()
    assert "inputs and outputs float32" in lines[0]
    assert any(line.split()[:2] == ["logits", "float32[batch_size,"] for line in lines)
    assert any("present.{0,1}.key" in line and "float16[" in line for line in lines)
