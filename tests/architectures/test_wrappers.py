"""Wrappers: what a program generates with the exported files is what transformers generates with the model."""

from itertools import count

import numpy as np
import pytest
import tiny
import torch
from refusals import refusal
from session_outputs import outputs_of
from transformers.models.speecht5 import modeling_speecht5

import onnxfn
from onnxfn.architectures.patches import sound
from onnxfn.architectures.wrappers import music, speecht5
from onnxfn.run.sessions import open_session
from onnxfn.specs.algebra.dummies import dummies

STEPS = 9


def speech_from_onnx(folder, text, speaker):
    encoded = outputs_of(open_session(folder / "encoder_model.onnx"), {"input_ids": text})
    decoder = open_session(folder / "decoder_model_merged.onnx")
    feeds = {"encoder_hidden_states": encoded["encoder_outputs"], "speaker_embeddings": speaker}
    feeds |= {"encoder_attention_mask": encoded["encoder_attention_mask"]}
    past = [input_ for input_ in decoder.get_inputs() if input_.name.startswith("past_key_values.")]
    for input_ in past:
        shape = [size if isinstance(size, int) else 0 for size in input_.shape]
        feeds[input_.name] = np.zeros(shape, "float32")
    feeds["output_sequence"] = np.zeros((1, 1, 10), "float32")
    spectra = []
    for step in range(STEPS):
        outputs = outputs_of(decoder, feeds)
        spectra.append(outputs["spectrum"])
        feeds["output_sequence"] = outputs["output_sequence_out"]
        updated = [input_.name for input_ in past if not step or ".encoder." not in input_.name]
        feeds |= {name: outputs[name.replace("past_key_values", "present")] for name in updated}
    vocoder = open_session(folder / "decoder_postnet_and_vocoder.onnx")
    return outputs_of(vocoder, {"spectrogram": np.concatenate(spectra)})["waveform"]


def test_speecht5_speaks_as_transformers(tmp_path, monkeypatch):
    spec, model = tiny.spec_and_model("speecht5", "text-to-audio-with-past")
    onnxfn.export(spec, model, tmp_path / "out", check=False)
    text = np.random.default_rng(0).integers(3, 128, (1, 11))
    speaker = np.random.default_rng(1).normal(size=(1, 12)).astype("float32")
    calls = count()

    def dropout_of_the_file(prenet, frames, p):
        layer = next(calls) % len(prenet.layers)
        return frames * speecht5.dropout_mask(frames.shape[1], frames.shape[2], layer, p) / (1 - p)

    monkeypatch.setattr(modeling_speecht5.SpeechT5SpeechDecoderPrenet, "_consistent_dropout", dropout_of_the_file)
    stopped_by_length = {"threshold": 9.0, "maxlenratio": 2 * STEPS / text.shape[1] + 0.01, "vocoder": model.vocoder}
    expected = model.generate_speech(torch.from_numpy(text), torch.from_numpy(speaker), **stopped_by_length).numpy()
    assert expected.shape == (2 * STEPS * 6,)
    np.testing.assert_allclose(speech_from_onnx(tmp_path / "out", text, speaker), expected, atol=1e-4)


def test_a_model_without_a_vocoder_is_refused():
    model = torch.nn.Module()
    assert refusal(onnxfn.InvalidSpec, speecht5.postnet_and_vocoder, model) == (
        "Module has no vocoder, which computes the waveform; before the export set "
        "model.vocoder = SpeechT5HifiGan.from_pretrained('microsoft/speecht5_hifigan')"
    )


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_dropout_mask_is_close_to_random(share):
    first, second = (speecht5.dropout_mask(600, 256, layer, share).double().numpy() for layer in (0, 1))
    for left, right in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 0.02
    assert abs(first.mean() - share) < 0.01
    assert np.array_equal(first[:40], speecht5.dropout_mask(40, 256, 0, share).numpy())


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("length", "max_length"), [(1, 20), (4, 20), (9, 12), (16, 20), (1, 7), (1, 6), (3, 5)])
def test_the_delay_pattern_equals_musicgens(channels, length, max_length):
    config = tiny.SPECIAL["musicgen"]["decoder"] | {"audio_channels": channels, "num_codebooks": 4 * channels}
    model = tiny.model("musicgen", "AutoModelForTextToWaveform", decoder=config).decoder
    codes = torch.randint(0, 32, (2 * 4 * channels, length), generator=torch.Generator().manual_seed(0))
    padding = torch.tensor([32])
    expected = model.build_delay_pattern_mask(codes, padding, max_length)
    actual = sound.delay_pattern_mask(model, codes, padding, max_length)
    for from_patch, from_model in zip(actual, expected, strict=True):
        assert torch.equal(from_patch, from_model)


def transcription_from_onnx(folder, config, feeds):
    """The tokens of a transducer and its blanks. After a blank, the last token and the state before it are fed."""
    encoded = outputs_of(open_session(folder / "encoder_model.onnx"), feeds)
    decoder, lengths = open_session(folder / "decoder_model.onnx"), encoded["encoder_attention_mask"].sum(axis=1)
    rows, frames = np.arange(len(lengths)), encoded["pooler_output"]
    zeros = np.zeros((config.num_decoder_layers, len(rows), config.decoder_hidden_size), "float32")
    past = {"past_hidden_state": zeros, "past_cell_state": zeros}
    last, frame, symbols = np.full(len(rows), config.blank_token_id), np.zeros_like(rows), np.zeros_like(rows)
    sequence = [last]
    while (frame < lengths).any():
        current = frames[rows, np.minimum(frame, frames.shape[1] - 1), None]
        outputs = outputs_of(decoder, {"input_ids": last[:, None], "encoder_hidden_states": current, **past})
        tokens, durations = np.split(outputs["logits"][:, 0], [config.vocab_size], axis=1)
        tokens = tokens.argmax(axis=1)
        blank = tokens == config.blank_token_id
        sequence.append(tokens)
        symbols = np.where(blank | (symbols + 1 >= config.max_symbols_per_step), 0, symbols + 1)
        steps = durations.argmax(axis=1) if durations.size else symbols == 0
        frame = frame + np.maximum(steps, blank)
        last = np.where(blank, last, tokens)
        for state in ("hidden_state", "cell_state"):
            before, after = past[f"past_{state}"], outputs[f"present_{state}"]
            past[f"past_{state}"] = np.where(blank[None, :, None], before, after)
    return np.stack(sequence, axis=1)


@pytest.mark.parametrize(
    "model_type", ["parakeet_rnnt", "parakeet_tdt", pytest.param("nemotron_asr_streaming", marks=pytest.mark.sweep)]
)
def test_a_transducer_transcribes_as_transformers(model_type, tmp_path):
    spec = onnxfn.spec_for(model_type, "automatic-speech-recognition")
    config = tiny.config(model_type)
    feeds = dummies(onnxfn.plan(spec, config).parts[0].spec, {"batch_size": 3, "sequence_length": 90}, seed=4)
    tensors = {name: torch.from_numpy(array) for name, array in feeds.items()}
    model = tiny.model(model_type, spec.call.loader)
    with torch.no_grad():  # the mean logit of each token is 0, and that of the blank slightly more
        for parameter in model.decoder.parameters():
            parameter.mul_(4)
        token_ids = torch.arange(config.vocab_size).expand(3, -1)
        logits = model(**tensors, decoder_input_ids=token_ids).logits
        model.joint.head.bias -= logits.mean((0, 1, 2))
        model.joint.head.bias[config.blank_token_id] += 0.4 * logits.std()
    onnxfn.export(spec, model, tmp_path / "out")
    suppressed = list(range(config.vocab_size, model.joint.head.out_features))
    options = {"decoder_start_token_id": config.blank_token_id, "suppress_tokens": suppressed or None, "max_length": 99}
    expected = model.generate(**tensors, **options, do_sample=False).sequences.numpy()
    assert len(set(expected.flatten().tolist())) > 3
    assert (expected[:, 1:] == config.blank_token_id).any()
    assert transcription_from_onnx(tmp_path / "out", config, feeds).tolist() == expected.tolist()


def test_pop2piano_generates_as_transformers_for_each_composer(tmp_path):
    spec, model = tiny.spec_and_model("pop2piano", "automatic-speech-recognition-with-past")
    model.generation_config.composer_to_feature_token = {str(number): 40 + number for number in range(7)}
    model.generation_config.decoder_start_token_id = 0
    onnxfn.export(spec, model, tmp_path / "out")
    features, mask = np.random.default_rng(0).normal(size=(2, 9, 32)).astype("float32"), np.ones((2, 9), "int64")
    mask[1, 6:] = 0
    options = {"max_new_tokens": 8, "eos_token_id": None, "do_sample": False}
    for number in (0, 3):
        tensors = {"input_features": torch.from_numpy(features.copy()), "attention_mask": torch.from_numpy(mask.copy())}
        expected = model.generate(**tensors, composer=str(number), **options).numpy()
        feeds = {"input_features": features, "attention_mask": mask, "composer": np.full(2, number)}
        conditioned = outputs_of(open_session(tmp_path / "out" / "mel_conditioner.onnx"), feeds)
        inputs = (conditioned["conditioned_features"], conditioned["conditioned_attention_mask"])
        assert onnxfn.generate(tmp_path / "out", *inputs, max_new_tokens=8, start=0).tolist() == expected.tolist()


def test_a_row_whose_first_feature_is_masked_has_no_composer():
    model = tiny.model("pop2piano", "AutoModelForSpeechSeq2Seq")
    model.generation_config.composer_to_feature_token = {"first": 40, "second": 43}
    features, mask = torch.ones(2, 5, 32), torch.ones(2, 5, dtype=torch.int64)
    mask[1, 0] = 0
    with torch.no_grad():
        actual = music.mel_conditioner(model, features, mask, torch.full((2,), 3))
        expected = model.get_mel_conditioner_outputs(features, "second", model.generation_config, mask)
    assert all(map(torch.equal, actual.values(), expected))
