"""Inputs and outputs of another float type than the weights, in plans."""

import pytest

import onnxfn
from onnxfn.specs.edits.tensors import with_dtypes

LLAMA = {"vocab_size": 99, "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
T5 = {"vocab_size": 99, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 4, "d_model": 8}


def half(model_type, task):
    return with_dtypes(onnxfn.spec_for(model_type, task), float="float16", io="float32")


def kinds(part):
    return {tensor.name: tensor.kind for tensor in part.spec.inputs}


def test_a_cache_keeps_the_type_of_the_weights():
    part = onnxfn.plan(half("llama", "text-generation-with-past"), LLAMA)[0]
    assert part.spec.io_names == ("logits",)
    assert kinds(part)["past_key_values.0.key"] == "float"


@pytest.mark.parametrize("decoders", ["merged", "separate"])
def test_what_an_encoder_hands_to_a_decoder_has_the_type_of_inputs_and_outputs(decoders):
    encoder, *others = onnxfn.plan(half("t5", "text2text-generation-with-past"), T5, decoders=decoders)
    assert encoder.spec.io_names == ("last_hidden_state",)
    fillers = [filler for part in others for filler in part.filler]
    for part in (*others, *fillers):
        assert kinds(part)["encoder_hidden_states"] == "float32"
        assert not any(name.startswith(("past", "present")) for name in part.spec.io_names)


def test_an_image_is_float32_in_each_case_of_the_check():
    part = onnxfn.plan(half("vit", "image-classification"), {"image_size": 8, "num_channels": 3, "patch_size": 4})[0]
    assert part.spec.io_names == ("pixel_values", "logits")
    tensors = [tensor for case in part.spec.cases for tensor in case.inputs if tensor.name == "pixel_values"]
    assert {tensor.kind for tensor in (part.spec["pixel_values"], *tensors)} == {"float32"}


def test_the_same_type_changes_nothing():
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    assert onnxfn.plan(with_dtypes(spec, io="float32"), LLAMA)[0].spec.io_names == ()
    both = onnxfn.plan(with_dtypes(spec, float="float16", io="float16"), LLAMA)[0].spec
    assert (both.io_names, both.inputs) == ((), onnxfn.plan(spec, LLAMA)[0].spec.inputs)


def test_the_plan_shows_the_type():
    lines = str(onnxfn.plan(half("llama", "text-generation-with-past"), LLAMA)).splitlines()
    assert "inputs and outputs float32" in lines[0]
    assert any(line.split()[:2] == ["logits", "float32[batch_size,"] for line in lines)
    assert any("present.0.key" in line and "float16[" in line for line in lines)
