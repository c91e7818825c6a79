"""Parts of a model that no module of it is: SpeechT5 speaks as transformers speaks, Musicgen's rule is Musicgen's."""

from __future__ import annotations

from itertools import count

import numpy as np
import onnxruntime
import pytest
import tiny
import torch
from refusals import refusal
from transformers.models.speecht5 import modeling_speecht5

import onnxfn
from onnxfn.architectures.patches import musicgen
from onnxfn.architectures.wrappers import pop2piano, speecht5
from onnxfn.specs.dummies import dummies
from onnxfn.specs.errors import InvalidSpec

STEPS = 9


def session(folder, stem):
    return onnxruntime.InferenceSession(str(folder / f"{stem}.onnx"), providers=["CPUExecutionProvider"])


def ran(run, feeds):
    wanted = [one.name for one in run.get_inputs()]
    names = [one.name for one in run.get_outputs()]
    return dict(zip(names, run.run(names, {name: feeds[name] for name in wanted}), strict=True))


def spoken_by_onnx(folder, text, speaker):
    """A waveform of STEPS steps; the encoder's keys and values of the first are kept for all."""
    read = ran(session(folder, "encoder_model"), {"input_ids": text})
    decoder = session(folder, "decoder_model_merged")
    feeds = {"encoder_hidden_states": read["encoder_outputs"], "speaker_embeddings": speaker}
    feeds |= {"encoder_attention_mask": read["encoder_attention_mask"]}
    past = [one for one in decoder.get_inputs() if one.name.startswith("past_key_values.")]
    feeds |= {one.name: np.zeros([s if isinstance(s, int) else 0 for s in one.shape], "float32") for one in past}
    feeds["output_sequence"] = np.zeros((1, 1, 10), "float32")
    spectra = []
    for step in range(STEPS):
        answer = ran(decoder, feeds)
        spectra.append(answer["spectrum"])
        feeds["output_sequence"] = answer["output_sequence_out"]
        grown = [one.name for one in past if not step or ".encoder." not in one.name]
        feeds |= {name: answer[name.replace("past_key_values", "present")] for name in grown}
    return ran(session(folder, "decoder_postnet_and_vocoder"), {"spectrogram": np.concatenate(spectra)})["waveform"]


def spoken_by_transformers(model, text, speaker, monkeypatch):
    """Its own `generate_speech`, whose dropout draws what the file draws, and which no probability ends."""
    calls = count()

    def drawn_alike(prenet, frames, share):
        layer = next(calls) % len(prenet.layers)
        return frames * speecht5.dropout_mask(frames.shape[1], frames.shape[2], layer, share) / (1 - share)

    monkeypatch.setattr(modeling_speecht5.SpeechT5SpeechDecoderPrenet, "_consistent_dropout", drawn_alike)
    told = {"threshold": 9.0, "maxlenratio": 2 * STEPS / text.shape[1] + 0.01, "vocoder": model.vocoder}
    return model.generate_speech(torch.from_numpy(text), torch.from_numpy(speaker), **told).numpy()


def test_speecht5_speaks_what_transformers_speaks(tmp_path, monkeypatch):
    spec = onnxfn.spec_for("speecht5", "text-to-audio-with-past")
    model = tiny.model("speecht5", spec.loader)
    onnxfn.export(spec, model, tmp_path / "out", check=False)
    text = np.random.default_rng(0).integers(3, 128, (1, 11))
    speaker = np.random.default_rng(1).normal(size=(1, 12)).astype("float32")
    expected = spoken_by_transformers(model, text, speaker, monkeypatch)
    assert expected.shape == (2 * STEPS * 6,)
    np.testing.assert_allclose(spoken_by_onnx(tmp_path / "out", text, speaker), expected, atol=1e-4)


def test_a_model_without_a_vocoder_is_refused():
    model = torch.nn.Module()
    assert refusal(InvalidSpec, speecht5.postnet_and_vocoder, model) == (
        "Module has no vocoder, which makes the waveform; before the export say "
        "model.vocoder = SpeechT5HifiGan.from_pretrained('microsoft/speecht5_hifigan')"
    )


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_draw_looks_drawn(share):
    first, second = (speecht5.dropout_mask(600, 256, layer, share).double().numpy() for layer in (0, 1))
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
    assert abs(first.mean() - share) < 0.01
    assert np.array_equal(first[:40], speecht5.dropout_mask(40, 256, 0, share).numpy())


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("given", "most"), [(1, 20), (4, 20), (9, 12), (16, 20), (1, 7), (1, 6), (3, 5)])
def test_the_rule_of_delayed_codes_is_musicgens(channels, given, most):
    told = tiny.SPECIAL["musicgen"]["decoder"]
    decoder = {**told, "audio_channels": channels, "num_codebooks": 4 * channels}
    model = tiny.model("musicgen", "AutoModelForTextToWaveform", decoder=decoder).decoder
    codes = torch.randint(0, 32, (2 * 4 * channels, given), generator=torch.Generator().manual_seed(0))
    padding = torch.tensor([32])
    expected = model.build_delay_pattern_mask(codes, padding, most)
    for made, wanted in zip(musicgen.delay_pattern_mask(model, codes, padding, most), expected, strict=True):
        assert torch.equal(made, wanted)


def transduced_by_onnx(folder, config, read):
    """What a transducer writes, with blanks: who says blank keeps its last token and what was before it."""
    heard = ran(session(folder, "encoder_model"), read)
    decoder, lengths = session(folder, "decoder_model"), heard["encoder_attention_mask"].sum(axis=1)
    rows, frames = np.arange(len(lengths)), heard["pooler_output"]
    nothing = np.zeros((config.num_decoder_layers, len(rows), config.decoder_hidden_size), "float32")
    past = {"past_hidden_state": nothing, "past_cell_state": nothing}
    last, place, said = np.full(len(rows), config.blank_token_id), np.zeros_like(rows), np.zeros_like(rows)
    written = [last]
    while (place < lengths).any():
        here = frames[rows, np.minimum(place, frames.shape[1] - 1), None]
        answer = ran(decoder, {"input_ids": last[:, None], "encoder_hidden_states": here, **past})
        tokens, durations = np.split(answer["logits"][:, 0], [config.vocab_size], axis=1)
        tokens = tokens.argmax(axis=1)
        blank = tokens == config.blank_token_id
        written.append(tokens)
        said = np.where(blank | (said + 1 >= config.max_symbols_per_step), 0, said + 1)
        steps = durations.argmax(axis=1) if durations.size else said == 0
        place = place + np.maximum(steps, blank)
        last = np.where(blank, last, tokens)
        for kept in ("hidden_state", "cell_state"):
            now, before = answer[f"present_{kept}"], past[f"past_{kept}"]
            past[f"past_{kept}"] = np.where(blank[None, :, None], before, now)
    return np.stack(written, axis=1)


def talkative(model, read):
    """The transducer, no token likelier than another on the whole, but that which says that none comes."""
    every = torch.arange(model.config.vocab_size).expand(3, -1)
    with torch.no_grad():
        for one in model.decoder.parameters():
            one.mul_(4)
        logits = model(**read, decoder_input_ids=every).logits
        model.joint.head.bias -= logits.mean((0, 1, 2))
        model.joint.head.bias[model.config.blank_token_id] += 0.4 * logits.std()
    return model


@pytest.mark.parametrize("model_type", ["parakeet_rnnt", "parakeet_tdt", "nemotron_asr_streaming"])
def test_a_transducer_writes_what_transformers_writes(model_type, tmp_path):
    spec = onnxfn.spec_for(model_type, "automatic-speech-recognition")
    config = tiny.config(model_type)
    read = dummies(onnxfn.plan(spec, config).parts[0].spec, {"batch_size": 3, "sequence_length": 90}, seed=4)
    tensors = {name: torch.from_numpy(array) for name, array in read.items()}
    model = talkative(tiny.model(model_type, spec.loader), tensors)
    onnxfn.export(spec, model, tmp_path / "out")
    beyond = list(range(config.vocab_size, model.joint.head.out_features))
    told = {"decoder_start_token_id": config.blank_token_id, "suppress_tokens": beyond or None, "max_length": 99}
    expected = model.generate(**tensors, **told, do_sample=False).sequences.numpy()
    assert len(set(expected.flatten().tolist())) > 3
    assert (expected[:, 1:] == config.blank_token_id).any()
    assert transduced_by_onnx(tmp_path / "out", config, read).tolist() == expected.tolist()


def test_pop2piano_plays_as_the_composer_whom_transformers_plays_as(tmp_path):
    spec = onnxfn.spec_for("pop2piano", "automatic-speech-recognition-with-past")
    model = tiny.model("pop2piano", spec.loader)
    model.generation_config.composer_to_feature_token = {str(number): 40 + number for number in range(7)}
    model.generation_config.decoder_start_token_id = 0
    onnxfn.export(spec, model, tmp_path / "out")
    random = np.random.default_rng(0)
    features, mask = random.normal(size=(2, 9, 32)).astype("float32"), np.ones((2, 9), "int64")
    mask[1, 6:] = 0
    told = {"max_new_tokens": 8, "eos_token_id": None, "do_sample": False}
    for number in (0, 3):
        heard = {"input_features": torch.from_numpy(features.copy()), "attention_mask": torch.from_numpy(mask.copy())}
        expected = model.generate(**heard, composer=str(number), **told).numpy()
        feeds = {"input_features": features, "attention_mask": mask, "composer": np.full(2, number)}
        read = ran(session(tmp_path / "out", "mel_conditioner"), feeds)
        played = (read["conditioned_features"], read["conditioned_attention_mask"])
        assert onnxfn.generate(tmp_path / "out", *played, max_new_tokens=8, start=0).tolist() == expected.tolist()


def test_what_begins_with_padding_has_no_composer():
    model = tiny.model("pop2piano", "AutoModelForSpeechSeq2Seq")
    model.generation_config.composer_to_feature_token = {"one": 40, "other": 43}
    features, mask = torch.ones(2, 5, 32), torch.ones(2, 5, dtype=torch.int64)
    mask[1, 0] = 0
    with torch.no_grad():
        ours = pop2piano.mel_conditioner(model)(features, mask, torch.full((2,), 3))
        theirs = model.get_mel_conditioner_outputs(features, "other", model.generation_config, mask)
    assert all(map(torch.equal, ours.values(), theirs))
