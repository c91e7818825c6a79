"""Models that hear and speak, and those of time series: what runs in place of the model answers as it does."""

import numpy as np
import pytest
import tiny
from refusals import refusal

import onnxfn
from onnxfn.architectures.patches.fastspeech import (
    length_regulated_states,
    relative_positional_encoding,
    shifted_relative_positions,
)
from onnxfn.architectures.patches.granite import block_attention
from onnxfn.architectures.patches.nemotron import attention
from onnxfn.architectures.patches.timesfm import masked_mean_std
from onnxfn.architectures.patches.vits import inverse_spline, relative_embeddings
from onnxfn.architectures.wrappers.timesfm import forecast, forecast_by_quantiles
from onnxfn.architectures.wrappers.vits import normal_noise, speech
from onnxfn.specs.errors import InvalidSpec, MissingValue

WAV2VEC2 = {"conv_kernel": [10, 3], "conv_stride": [5, 2]}
HEARD = "( ( sequence_length - 10 ) // 5 + 1 - 3 ) // 2 + 1"


@pytest.mark.parametrize(
    ("told", "frames"),
    [
        ({}, HEARD),
        ({"add_adapter": False, "num_adapter_layers": 2, "adapter_stride": 3}, HEARD),
        ({"add_adapter": True, "num_adapter_layers": 1, "adapter_stride": 3}, f"( {HEARD} - 1 ) // 3 + 1"),
    ],
)
def test_the_length_of_what_is_given_follows_from_the_configuration(told, frames):
    spec = onnxfn.spec_for("wav2vec2", "feature-extraction")
    assert onnxfn.plan(spec, WAV2VEC2 | told).parts[0].outputs["last_hidden_state"] == {0: "batch_size", 1: frames}


def test_a_configuration_without_convolutions_is_told_so():
    with pytest.raises(MissingValue, match=r"axis 'frames' of 'last_hidden_state' of wav2vec2: .* no 'conv_kernel'"):
        onnxfn.plan(onnxfn.spec_for("wav2vec2", "feature-extraction"), {"conv_stride": [5, 2]})


@pytest.fixture(scope="module")
def vits():
    return tiny.model("vits")


def test_vits_speaks_as_the_model_does_with_the_same_noise(vits, monkeypatch):
    import torch

    ids = torch.randint(1, 38, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    with torch.no_grad():
        ours = speech(vits)(ids, mask)
        monkeypatch.setattr(torch, "randn", lambda *_: normal_noise(9, 2, 3).T[None].expand(2, -1, -1))
        monkeypatch.setattr(
            torch, "randn_like", lambda like: normal_noise(like.shape[2], like.shape[1], 7).T.expand_as(like)
        )
        theirs = vits(ids, mask)
    assert torch.equal(ours["waveform"], theirs.waveform)
    assert torch.equal(ours["spectrogram"], theirs.spectrogram)


def test_vits_says_a_text_alike_in_every_batch(vits):
    import torch

    ids = torch.randint(1, 38, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    with torch.no_grad():
        both = speech(vits)(ids, mask)["spectrogram"]
        alone = speech(vits)(ids[1:, :6], mask[1:, :6])["spectrogram"]
    torch.testing.assert_close(both[1:, :, : alone.shape[2]], alone, atol=1e-5, rtol=1e-4)


def test_what_is_drawn_looks_normal():
    made = normal_noise(400, 40, 7).numpy()
    assert abs(made.mean()) < 0.02
    assert abs(made.std() - 1) < 0.02
    assert abs((made**4).mean() - 3) < 0.2
    assert np.abs(np.corrcoef(made.T) - np.eye(40)).max() < 0.25


def test_the_spline_is_the_models():
    import torch
    from transformers.models.vits.modeling_vits import _unconstrained_rational_quadratic_spline

    random = torch.Generator().manual_seed(0)
    values = torch.randn(2, 1, 50, generator=random) * 3  # some lie outside of the bounds
    given = [torch.randn(2, 1, 50, bins, generator=random) for bins in (10, 10, 9)]
    theirs, _ = _unconstrained_rational_quadratic_spline(values, *given, reverse=True)
    torch.testing.assert_close(inverse_spline(values, *given, reverse=True)[0], theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 4, 5, 6, 20])
def test_relative_places_are_the_models(vits, length):
    import torch

    attention = vits.text_encoder.encoder.layers[0].attention
    theirs = attention._get_relative_embeddings(attention.emb_rel_k, length)
    assert torch.equal(relative_embeddings(attention, attention.emb_rel_k, length), theirs)


@pytest.mark.parametrize("length", [19, 96, 130])
def test_timesfm_forecasts_as_the_model_does_of_a_list(length):
    import torch

    series = torch.randn(3, length, generator=torch.Generator().manual_seed(0))
    model = tiny.model("timesfm", "AutoModelForTimeSeriesPrediction")
    with torch.no_grad():
        theirs = model(list(series), freq=[0, 2, 1])
        ours = forecast(model)(series, torch.tensor([0, 2, 1]))
    torch.testing.assert_close(ours["full_predictions"], theirs.full_predictions, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours["mean_predictions"], theirs.mean_predictions, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("length", [19, 130])
def test_timesfm_forecasts_quantiles_as_the_model_does_of_a_list(length, above):
    import torch

    series = torch.randn(3, length, generator=torch.Generator().manual_seed(0))
    series = series.abs() if above else series
    model = tiny.model("timesfm2_5", "AutoModelForTimeSeriesPrediction")
    with torch.no_grad():
        theirs, ours = model(list(series)), forecast_by_quantiles(model)(series)
    torch.testing.assert_close(ours["full_predictions"], theirs.full_predictions, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours["mean_predictions"], theirs.mean_predictions, atol=1e-6, rtol=1e-5)


def test_the_scale_of_a_series_is_the_models():
    import torch
    from transformers.models.timesfm.modeling_timesfm import TimesFmModel

    padding = torch.zeros(3, 12, 8)
    padding[0, :3], padding[0, 3, :6], padding[1] = 1, 1, 1  # none is padding, all is, and too much of one patch
    steps = torch.randn(3, 12, 8, generator=torch.Generator().manual_seed(0))
    theirs = TimesFmModel._timesfm_masked_mean_std(steps, padding)
    assert all(map(torch.equal, masked_mean_std(None, steps, padding), theirs))


@pytest.mark.parametrize("length", [37, 48, 91])
def test_granites_blocks_are_the_models(length, monkeypatch):
    import torch
    from transformers.models.granite_speech5 import modeling_granite_speech5 as granite

    model = tiny.model("granite_speech5_encoder")
    banks = torch.randn(2, length, 24, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    with torch.no_grad():
        theirs = model(banks, attention_mask=mask).last_hidden_state
        monkeypatch.setattr(granite.GraniteSpeech5EncoderAttention, "forward", block_attention)
        ours = model(banks, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_nemotrons_frames_that_see_nothing_are_the_models(bias, monkeypatch):
    import torch
    from transformers.models.nemotron_asr_streaming import modeling_nemotron_asr_streaming as nemotron

    model = tiny.model("nemotron_asr_streaming", "AutoModelForRNNT")
    if not bias:
        for layer in model.encoder.layers:
            layer.self_attn.o_proj.bias = None
    banks = torch.randn(2, 90, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 90, dtype=torch.int64)
    mask[1, 20:] = 0  # four frames of twelve, so that most of the others see none of these
    with torch.no_grad():
        theirs = model.get_audio_features(banks, mask).pooler_output
        monkeypatch.setattr(nemotron.NemotronAsrStreamingEncoderAttention, "forward", attention)
        ours = model.get_audio_features(banks, mask).pooler_output
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("high", [1, 4])
def test_fastspeechs_tokens_last_as_long_as_the_models(high):
    import torch
    from transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer import length_regulator

    random = torch.Generator().manual_seed(0)
    states, lasting = torch.randn(3, 6, 4, generator=random), torch.randint(0, high, (3, 6), generator=random)
    lasting[2] = 0
    for speed in (1.0, 2.5):
        assert torch.equal(
            length_regulated_states(states, lasting, speed), length_regulator(states, lasting.clone(), speed)
        )


def test_fastspeechs_places_are_the_models():
    import torch
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as fastspeech

    encoding = tiny.model("fastspeech2_conformer", "AutoModelForTextToSpectrogram").encoder.pos_enc
    assert isinstance(encoding, fastspeech.FastSpeech2ConformerRelPositionalEncoding)
    states = torch.randn(2, 7, encoding.embed_dim, generator=torch.Generator().manual_seed(0))
    assert all(map(torch.equal, relative_positional_encoding(encoding, states), encoding(states)))
    distances = torch.randn(2, 3, 7, 13, generator=torch.Generator().manual_seed(0))
    theirs = fastspeech.FastSpeech2ConformerAttention.shift_relative_position_tensor(None, distances)
    assert torch.equal(shifted_relative_positions(None, distances), theirs)


def test_an_encodec_of_overlapping_chunks_is_refused(tmp_path):
    model = tiny.model("encodec", chunk_length_s=1.0)
    told = refusal(InvalidSpec, onnxfn.export, onnxfn.spec_for(model), model, tmp_path / "out")
    assert told.startswith("EncodecModel goes through sound in chunks of 2000 that overlap")
