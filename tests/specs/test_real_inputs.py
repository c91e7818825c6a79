"""Inputs from real tokenizers, image processors and feature extractors, and the case of the check that uses them."""

import numpy as np
import pytest
import tiny
from refusals import refusal
from transformers import AutoTokenizer, BertTokenizer, Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

import onnxfn
from onnxfn import InvalidSpec, dummy_inputs, sized, spec_for, with_shapes
from onnxfn.export.cli.demo import minilm
from onnxfn.specs.algebra.compose import compose

WIDE = {"vocab_size": 30522}
PROMPT = "preprocessed (batch_size=2, sequence_length=16, past_sequence_length=0)"


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(minilm())


def inputs_of(model_type, task, preprocessor, values=WIDE, **sizes):
    config = tiny.config(model_type, **values)
    return dummy_inputs(spec_for(model_type, task), config, "np", preprocessor=preprocessor, **sizes)


def image_processor(size):
    """A stand-in for the image processors of transformers, which need packages that are not installed."""

    def processor(images, return_tensors):
        cropped = [image[:size, :size].transpose(2, 0, 1) / 255 for image in images]
        return {"pixel_values": np.stack(cropped), "pixel_mask": np.ones((len(images), size, size))}

    processor.image_mean = [0.0]
    return processor


# Texts


def test_token_type_ids_are_those_of_pairs_of_texts(tokenizer):
    arrays = inputs_of("bert", "text-classification", tokenizer)
    assert {name: array.shape for name, array in arrays.items()} == dict.fromkeys(arrays, (2, 16))
    assert list(arrays) == ["input_ids", "attention_mask", "token_type_ids"]
    assert arrays["token_type_ids"].max(axis=1).tolist() == [1, 1]
    assert tokenizer.decode(arrays["input_ids"][0]).count("[SEP]") == 2
    assert arrays["attention_mask"].sum(axis=1).tolist() == [16, 11]


def test_multiple_choice_has_an_axis_of_choices(tokenizer):
    arrays = inputs_of("bert", "multiple-choice", tokenizer, batch_size=3, num_choices=2, sequence_length=9)
    assert {array.shape for array in arrays.values()} == {(3, 2, 9)}
    assert len(np.unique(arrays["input_ids"].reshape(6, 9), axis=0)) > 4


def test_outputs_of_a_tokenizer_that_are_no_inputs_are_dropped(tokenizer):
    assert list(inputs_of("distilbert", "fill-mask", tokenizer)) == ["input_ids", "attention_mask"]


def test_the_cache_and_the_position_ids_have_matching_sizes(tokenizer):
    arrays = inputs_of("llama", "text-generation-with-past", tokenizer, past_sequence_length=5, sequence_length=9)
    assert arrays["attention_mask"].shape == (2, 14)
    assert arrays["attention_mask"][:, :5].all()
    assert arrays["past_key_values.0.key"].shape == (2, 2, 5, 8)
    assert arrays["position_ids"][0].tolist() == list(range(5, 14))


def test_a_tokenizer_without_padding_gets_texts_of_equal_length(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfox\n")
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    tokenizer.pad_token = None
    arrays = inputs_of("gpt2", "text-generation", tokenizer, sequence_length=12)
    assert arrays["input_ids"].shape == (2, 12)
    assert arrays["attention_mask"].all()


# Images, sounds


def test_an_image_processor_computes_pixel_values():
    arrays = inputs_of("vit", "image-classification", image_processor(24), {}, batch_size=3)
    facts = {name: (array.shape, array.dtype.name) for name, array in arrays.items()}
    assert facts == {"pixel_values": ((3, 3, 24, 24), "float32")}


def test_the_sound_is_a_tone_of_220_hertz():
    arrays = inputs_of("wav2vec2", "audio-classification", Wav2Vec2FeatureExtractor(do_normalize=False), {})
    (sound,) = arrays.values()
    assert sound.shape == (2, 16000)
    assert np.abs(np.fft.rfft(sound[0])).argmax() == 220


def test_the_number_of_frames_follows_from_the_length_of_the_tone():
    extractor = Wav2Vec2FeatureExtractor(return_attention_mask=True)
    arrays = inputs_of("moonshine_streaming", "automatic-speech-recognition", extractor, _framed(5.0))
    assert arrays["input_values"].shape == arrays["attention_mask"].shape == (2, 80 * 200)
    message = r"computes 'input_values' with the shape \[2, 16000\], but the plan has \[2, 15904\]"
    with pytest.raises(InvalidSpec, match=message):
        inputs_of("moonshine_streaming", "automatic-speech-recognition", extractor, _framed(7.0))


def _framed(milliseconds):
    return {"encoder_config": {"sample_rate": 16000, "frame_ms": milliseconds}}


def test_a_feature_extractor_computes_mel_features():
    sizes = {"num_mel_bins": 80, "max_source_positions": 1500}
    arrays = inputs_of("whisper", "automatic-speech-recognition", WhisperFeatureExtractor(), sizes)
    assert arrays["input_features"].shape == (2, 80, 3000)


def test_each_component_of_a_processor_is_used(tokenizer):
    def processor():
        """A stand-in for a processor of transformers."""

    processor.tokenizer, processor.image_processor = tokenizer, image_processor(24)
    assert list(inputs_of("bert", "fill-mask", processor)) == ["input_ids", "attention_mask", "token_type_ids"]
    assert list(inputs_of("vit", "image-classification", processor, {})) == ["pixel_values"]


# Errors


def test_a_shape_that_is_not_planned_is_an_error():
    assert refusal(InvalidSpec, inputs_of, "vit", "image-classification", image_processor(32), {}) == (
        "the preprocessor computes 'pixel_values' with the shape [2, 3, 32, 32], but the plan has [2, 3, 24, 24]; "
        "is it the preprocessor of this model?"
    )


def test_an_object_that_computes_no_input_is_an_error(tokenizer):
    message = refusal(InvalidSpec, inputs_of, "vit", "image-classification", tokenizer, {})
    assert "BertTokenizer computes nothing, but the inputs of vit are pixel_values" in message
    assert "object is no tokenizer" in refusal(InvalidSpec, inputs_of, "bert", "fill-mask", object())


# The check


@pytest.mark.parametrize(
    ("model_type", "task", "case"),
    [
        ("bert", "feature-extraction", "preprocessed (batch_size=2, sequence_length=16)"),
        ("llama", "text-generation-with-past", PROMPT),
    ],
)
def test_real_inputs_are_a_case_of_the_check(model_type, task, case, tokenizer, tmp_path):
    spec, model = tiny.spec_and_model(model_type, task, **WIDE)
    result = onnxfn.export(spec, model, tmp_path / "out", preprocessor=tokenizer)
    assert result.report.passed
    assert case in result.report.cases
    assert case in onnxfn.validate(spec, model, result, preprocessor=tokenizer).cases
    assert case not in onnxfn.validate(spec, model, result).cases


def test_a_preprocessor_of_another_model_is_an_error_before_the_model_is_traced(tokenizer, tmp_path):
    spec = spec_for("vit", "image-classification")
    model = tiny.model("vit", spec.call.loader)
    message = refusal(InvalidSpec, onnxfn.export, spec, model, tmp_path / "o", preprocessor=tokenizer)
    assert "the inputs of vit are pixel_values" in message


def test_real_inputs_have_the_fixed_sizes(tokenizer):
    spec = with_shapes(compose(spec_for("bert", "fill-mask"), sized(sequence_length=7)), batch_size=1)
    arrays = dummy_inputs(spec, tiny.config("bert", **WIDE), "np", preprocessor=tokenizer)
    assert arrays["input_ids"].shape == (1, 7)
