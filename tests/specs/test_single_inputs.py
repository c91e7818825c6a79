"""Edits of single inputs: another dtype, other dummies, another position."""

import pytest
from refusals import refusal

import onnxfn
from onnxfn import dummy_inputs, for_task, inputs, plan, with_constants, with_dtypes, with_generator
from onnxfn import with_input_order as ordered

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)
CONFIG = {"vocab_size": 50, "type_vocab_size": 2}
LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}


def test_one_input_has_a_dtype_of_its_own_in_every_task():
    edited = with_dtypes(BERT, input_ids="int32")
    dtypes = {name: str(array.dtype) for name, array in dummy_inputs(edited, CONFIG, "np").items()}
    assert dtypes == {"input_ids": "int32", "attention_mask": "int64", "token_type_ids": "int64"}
    assert for_task(edited, "multiple-choice")["input_ids"].kind == "int32"


def test_one_input_has_other_dummies_in_every_case():
    edited = with_generator(BERT, "token_type_ids", "constant", value=1)
    arrays = dummy_inputs(edited, CONFIG, "np")
    assert arrays["token_type_ids"].all()
    assert (arrays["input_ids"] == dummy_inputs(BERT, CONFIG, "np")["input_ids"]).all()
    used = {generator.name for generator in plan(edited, CONFIG).parts[0].spec.dummies.generators}
    assert {"values of token_type_ids", "token_ids", "padding_mask"} <= used
    assert "did you mean 'token_type_ids'?" in refusal(onnxfn.UnknownName, with_generator, BERT, "token_type", "normal")


def test_inputs_are_in_another_order_with_those_of_a_cache():
    assert list(inputs(ordered(BERT, "token_type_ids", "input_ids"))) == [
        *("token_type_ids", "input_ids", "attention_mask")
    ]
    edited = ordered(onnxfn.spec_for("llama"), "past_key_values.1.key", "attention_mask")
    names = list(inputs(for_task(edited, "text-generation-with-past"), LLAMA))
    assert names[:3] == ["past_key_values.1.key", "attention_mask", "input_ids"]
    assert len(names) == 7


def test_an_order_follows_new_names_and_removed_inputs():
    edited = ordered(BERT, "token_type_ids", "attention_mask")
    renamed = onnxfn.renamed(edited, token_type_ids="segments")
    assert list(inputs(renamed)) == ["segments", "attention_mask", "input_ids"]
    assert list(inputs(onnxfn.without(edited, "token_type_ids"))) == ["attention_mask", "input_ids"]


def test_a_constant_takes_the_place_of_an_input_in_every_task():
    edited = with_constants(BERT, token_type_ids=0)
    assert list(inputs(edited)) == ["input_ids", "attention_mask"]
    assert list(inputs(for_task(edited, "multiple-choice"), CONFIG)) == ["input_ids", "attention_mask"]
    assert onnxfn.from_json(onnxfn.to_json(edited)) == edited
    planned = plan(onnxfn.with_axis_names(edited, batch_size="N")).parts[0].spec.call.constants
    (filled,) = [constant for constant in planned if constant.name == "token_type_ids"]
    assert (filled.value, str(filled.axes), filled.kind) == (0, "[N, sequence_length]", "int")


@pytest.mark.parametrize(
    ("edit", "masks"),
    [
        (onnxfn.renamed(attention_mask="mask"), ["mask int64"]),
        (with_dtypes(attention_mask="int32"), ["attention_mask int32"]),
        (with_generator("attention_mask", "constant", value=1), ["attention_mask int64"]),
        (onnxfn.without("attention_mask"), []),
        (with_constants(attention_mask=1), []),
    ],
    ids=["renamed", "dtype", "generator", "without", "constant"],
)
def test_an_edit_of_the_mask_holds_in_a_task_that_is_chosen_later(edit, masks):
    spec = for_task(edit(onnxfn.spec_for("llama")), "text-generation-with-past")
    arrays = dummy_inputs(spec, LLAMA, "np", past_sequence_length=5, sequence_length=2)
    assert [f"{name} {array.dtype}" for name, array in arrays.items() if "mask" in name] == masks
    assert all(array.shape == (2, 7) for name, array in arrays.items() if "mask" in name)
    constants = [constant for constant in plan(spec, LLAMA).parts[0].spec.call.constants if constant.axes is not None]
    assert [str(constant.axes) for constant in constants] == (
        ["[batch_size, past_sequence_length + sequence_length]"] if "with_constants" in edit.__name__ else []
    )


def test_position_ids_are_an_input_of_an_encoder_in_the_task_that_it_has():
    classifier = for_task(BERT, "text-classification")
    arrays = dummy_inputs(onnxfn.compose(classifier, onnxfn.positions), CONFIG, "np")
    assert arrays["position_ids"][:, :4].tolist() == [[0, 1, 2, 3]] * 2


def test_other_dummies_of_the_mask_of_a_decoder_have_its_axes_with_a_past():
    pix2struct = for_task(onnxfn.spec_for("pix2struct"), "image-to-text-with-past")
    edited = with_generator(pix2struct, "decoder_attention_mask", "constant", value=1)
    inputs_of = [onnxfn.with_behavior(spec, "decoder", past="both").inputs for spec in (pix2struct, edited)]
    axes = [{tensor.forward_path: tensor.axes for tensor in tensors} for tensors in inputs_of]
    assert axes[0] == axes[1]
