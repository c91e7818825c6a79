"""From the nested arguments and results of `forward` to the flat names of ONNX."""

import pytest
from refusals import refusal

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.edits.behaviors import with_behavior
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.plan.onnx_feeds import flatten_outputs, ort_inputs
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.plan.questions import past_key_values
from onnxfn.specs.tasks.tasks import for_task

CONFIG = {"vocab_size": 50, "d_model": 32, "hidden_size": 32, "decoder_layers": 1, "decoder_attention_heads": 4}
BART = for_task(ARCHITECTURES["bart"], "text2text-generation-with-past")
FOUR = {
    "past_key_values.0.decoder.key": "k",
    "past_key_values.0.decoder.value": "v",
    "past_key_values.0.encoder.key": "K",
    "past_key_values.0.encoder.value": "V",
}
RESUMED = {
    "decoder_input_ids": "ids",
    "attention_mask": "mask",
    "encoder_outputs": ("states", None, None),
    "past_key_values": (("k", "v", "K", "V"),),
}


# Results


def test_a_cache_with_cross_attention_is_flattened():
    assert flatten_outputs("past_key_values", (("k", "v", "K", "V"),)) == FOUR


def test_a_cache_of_transformers_is_flattened():
    import torch
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    own, cross = DynamicCache(), DynamicCache()
    tensors = [torch.full((1, 1, 1, 1), float(number)) for number in range(4)]
    own.update(*tensors[:2], 0)
    cross.update(*tensors[2:], 0)
    flat = flatten_outputs("past_key_values", EncoderDecoderCache(own, cross))
    assert {name: tensor.item() for name, tensor in flat.items()} == dict(zip(FOUR, range(4), strict=True))
    assert list(flatten_outputs("present", own)) == ["present.0.key", "present.0.value"]


def test_a_missing_cache_stays_none():
    assert flatten_outputs("past_key_values", None) == {"past_key_values": None}


# Arguments


def test_inputs_have_the_names_of_onnx():
    spec = plan(with_behavior(BART, "decoder", past="both"), CONFIG).parts[0].spec
    assert ort_inputs(spec, RESUMED) == {
        "input_ids": "ids",
        "encoder_attention_mask": "mask",
        "encoder_hidden_states": "states",
        **FOUR,
    }


def test_a_spec_without_a_past_has_no_cache_inputs():
    spec = plan(with_behavior(BART, "decoder"), CONFIG).parts[0].spec
    assert set(ort_inputs(spec, RESUMED)) == {"input_ids", "encoder_attention_mask", "encoder_hidden_states"}


def test_a_spec_before_planning_has_all_tensors_of_the_cache():
    spec = with_behavior(BART, "decoder", past="both")
    assert set(ort_inputs(spec, RESUMED)) >= set(FOUR)


def test_a_missing_argument_is_an_error():
    spec = plan(with_behavior(BART, "encoder"), CONFIG).parts[0].spec
    assert "nothing at 'input_ids'" in refusal(UnknownName, ort_inputs, spec, {"attention_mask": 1})


# The cache of a plan


@pytest.mark.parametrize("spec", [BART, ARCHITECTURES["bart"]])
def test_the_cache_of_an_encoder_decoder_is_that_of_its_decoder(spec):
    own = {0: "batch_size", 2: "past_decoder_sequence_length"}
    cross = {0: "batch_size", 2: "encoder_sequence_length"}
    assert past_key_values(spec, CONFIG, direction="inputs") == dict(zip(FOUR, (own, own, cross, cross), strict=True))
    outputs = past_key_values(spec, CONFIG, direction="outputs")
    longer = {0: "batch_size", 2: "past_decoder_sequence_length + decoder_sequence_length"}
    names = [name.replace("past_key_values", "present") for name in FOUR]
    assert outputs == dict(zip(names, (longer, longer, cross, cross), strict=True))


def test_a_model_without_a_cache_has_no_past():
    assert refusal(InvalidSpec, past_key_values, ARCHITECTURES["bert"], CONFIG, direction="inputs") == (
        "bert has no cache, so it has no past"
    )


def test_an_unknown_direction_is_an_error_that_names_the_closest():
    assert refusal(UnknownName, past_key_values, BART, CONFIG, direction="input") == (
        "no direction 'input'; known: inputs, outputs; did you mean 'inputs'?"
    )
