"""Real tokenizers, image processors and feature extractors make the sample, and are one more case of the check."""

import numpy as np
import pytest
import tiny
from refusals import refusal
from transformers import AutoTokenizer, BertTokenizer, Wav2Vec2FeatureExtractor, WhisperFeatureExtractor

import onnxfn
from onnxfn import dummy_inputs, sized, spec_for, with_shapes
from onnxfn.export.demo import minilm
from onnxfn.specs.compose import compose
from onnxfn.specs.errors import InvalidSpec

WIDE = {"vocab_size": 30522}
PROMPT = (
    "preprocessed (batch_size=2, sequence_length=16, past_sequence_length + sequence_length=16, past_sequence_length=0)"
)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(minilm())


def made(model_type, task, preprocessor, told=WIDE, **sizes):
    return dummy_inputs(
        spec_for(model_type, task), tiny.config(model_type, **told), "np", preprocessor=preprocessor, **sizes
    )


def image_processor(size):
    """What image processors of transformers look like, which need packages that this test does without."""

    def processor(images, return_tensors):
        cut = [image[:size, :size].transpose(2, 0, 1) / 255 for image in images]
        return {"pixel_values": np.stack(cut), "pixel_mask": np.ones((len(images), size, size))}

    processor.image_mean = [0.0]
    return processor


# Texts


def test_segments_are_of_pairs_of_texts(tokenizer):
    told = made("bert", "text-classification", tokenizer)
    assert {name: array.shape for name, array in told.items()} == dict.fromkeys(told, (2, 16))
    assert list(told) == ["input_ids", "attention_mask", "token_type_ids"]
    assert told["token_type_ids"].max(axis=1).tolist() == [1, 1]
    assert tokenizer.decode(told["input_ids"][0]).count("[SEP]") == 2
    assert told["attention_mask"].sum(axis=1).tolist() == [16, 11]


def test_choices_have_an_axis_of_their_own(tokenizer):
    told = made("bert", "multiple-choice", tokenizer, batch_size=3, num_choices=2, sequence_length=9)
    assert {array.shape for array in told.values()} == {(3, 2, 9)}
    assert len(np.unique(told["input_ids"].reshape(6, 9), axis=0)) > 4


def test_what_the_spec_does_not_take_is_dropped(tokenizer):
    assert list(made("distilbert", "fill-mask", tokenizer)) == ["input_ids", "attention_mask"]


def test_a_past_and_places_are_made_to_fit(tokenizer):
    told = made("llama", "text-generation-with-past", tokenizer, past_sequence_length=5, sequence_length=9)
    assert told["attention_mask"].shape == (2, 14)
    assert told["attention_mask"][:, :5].all()
    assert told["past_key_values.0.key"].shape == (2, 2, 5, 8)
    assert told["position_ids"][0].tolist() == list(range(5, 14))


def test_a_tokenizer_that_does_not_pad_makes_texts_of_one_length(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfox\n")
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    tokenizer.pad_token = None
    told = made("gpt2", "text-generation", tokenizer, sequence_length=12)
    assert told["input_ids"].shape == (2, 12)
    assert told["attention_mask"].all()


# Images, sounds


def test_an_image_and_what_else_is_made_of_it():
    told = made("vit", "image-classification", image_processor(24), {}, batch_size=3)
    assert {name: (array.shape, array.dtype.name) for name, array in told.items()} == {
        "pixel_values": ((3, 3, 24, 24), "float32")
    }


def test_a_tone_of_220_hertz():
    told = made("wav2vec2", "audio-classification", Wav2Vec2FeatureExtractor(do_normalize=False), {})
    (sound,) = told.values()
    assert sound.shape == (2, 16000)
    assert np.abs(np.fft.rfft(sound[0])).argmax() == 220


def test_a_tone_is_of_so_many_frames():
    extractor = Wav2Vec2FeatureExtractor(return_attention_mask=True)
    told = made("moonshine_streaming", "automatic-speech-recognition", extractor, _framed(5.0))
    assert told["input_values"].shape == told["attention_mask"].shape == (2, 80 * 200)
    with pytest.raises(InvalidSpec, match=r"makes 'input_values' of \[2, 16000\] where the plan has \[2, 15904\]"):
        made("moonshine_streaming", "automatic-speech-recognition", extractor, _framed(7.0))


def _framed(milliseconds):
    return {"encoder_config": {"sample_rate": 16000, "frame_ms": milliseconds}}


def test_features_are_heard_in_a_tone():
    sizes = {"num_mel_bins": 80, "max_source_positions": 1500}
    told = made("whisper", "automatic-speech-recognition", WhisperFeatureExtractor(), sizes)
    assert told["input_features"].shape == (2, 80, 3000)


def test_a_processor_is_its_parts(tokenizer):
    def processor():
        """What a processor of transformers looks like."""

    processor.tokenizer, processor.image_processor = tokenizer, image_processor(24)
    assert list(made("bert", "fill-mask", processor)) == ["input_ids", "attention_mask", "token_type_ids"]
    assert list(made("vit", "image-classification", processor, {})) == ["pixel_values"]


# Refusals


def test_another_shape_than_is_planned_is_refused():
    assert refusal(InvalidSpec, made, "vit", "image-classification", image_processor(32), {}) == (
        "the preprocessor makes 'pixel_values' of [2, 3, 32, 32] where the plan has [2, 3, 24, 24]; "
        "is it the one of this model?"
    )


def test_a_preprocessor_of_other_inputs_is_refused(tokenizer):
    assert "BertTokenizer makes nothing, and vit takes pixel_values" in refusal(
        InvalidSpec, made, "vit", "image-classification", tokenizer, {}
    )


def test_what_is_no_preprocessor_is_refused():
    assert "object is no tokenizer" in refusal(InvalidSpec, made, "bert", "fill-mask", object())


# The check


@pytest.mark.parametrize(
    ("model_type", "task", "said"),
    [
        ("bert", "feature-extraction", "preprocessed (batch_size=2, sequence_length=16)"),
        ("llama", "text-generation-with-past", PROMPT),
    ],
)
def test_a_real_input_is_one_more_case(model_type, task, said, tokenizer, tmp_path):
    spec = spec_for(model_type, task)
    model = tiny.model(model_type, spec.call.loader, **WIDE)
    result = onnxfn.export(spec, model, tmp_path / "out", preprocessor=tokenizer)
    assert result.report.passed
    assert said in result.report.cases
    assert said in onnxfn.validate(spec, model, result, preprocessor=tokenizer).cases
    assert said not in onnxfn.validate(spec, model, result).cases


def test_a_preprocessor_of_another_model_is_refused_before_anything_is_traced(tokenizer, tmp_path):
    spec = spec_for("vit", "image-classification")
    text = refusal(
        InvalidSpec, onnxfn.export, spec, tiny.model("vit", spec.call.loader), tmp_path / "o", preprocessor=tokenizer
    )
    assert "vit takes pixel_values" in text


def test_a_shape_that_is_fixed_is_that_of_the_sample(tokenizer):
    spec = with_shapes(compose(spec_for("bert", "fill-mask"), sized(sequence_length=7)), batch_size=1)
    told = dummy_inputs(spec, tiny.config("bert", **WIDE), "np", preprocessor=tokenizer)
    assert told["input_ids"].shape == (1, 7)
