"""Audio and time series: patches and wrappers compute what the models compute."""

import numpy as np
import pytest
import tiny
import torch
from refusals import refusal

import onnxfn
from onnxfn.architectures.patches import packed_sound, sound, timesfm
from onnxfn.architectures.wrappers.timesfm import forecast, forecast_by_quantiles
from onnxfn.architectures.wrappers.vits import normal_noise, speech
from onnxfn.specs.errors import InvalidSpec, MissingValue

WAV2VEC2 = {"conv_kernel": [10, 3], "conv_stride": [5, 2]}
FRAMES = "( ( sequence_length - 10 ) // 5 + 1 - 3 ) // 2 + 1"


@pytest.mark.parametrize(
    ("config", "frames"),
    [
        ({}, FRAMES),
        ({"add_adapter": False, "num_adapter_layers": 2, "adapter_stride": 3}, FRAMES),
        ({"add_adapter": True, "num_adapter_layers": 1, "adapter_stride": 3}, f"( {FRAMES} - 1 ) // 3 + 1"),
    ],
)
def test_the_length_of_the_output_follows_from_the_configuration(config, frames):
    spec = onnxfn.spec_for("wav2vec2", "feature-extraction")
    assert onnxfn.plan(spec, WAV2VEC2 | config).parts[0].outputs["last_hidden_state"] == {0: "batch_size", 1: frames}


def test_a_configuration_without_convolutions_is_refused():
    with pytest.raises(MissingValue, match=r"axis 'frames' of 'last_hidden_state' of wav2vec2: .* no 'conv_kernel'"):
        onnxfn.plan(onnxfn.spec_for("wav2vec2", "feature-extraction"), {"conv_stride": [5, 2]})


@pytest.fixture(scope="module")
def vits():
    ids = torch.randint(1, 38, (2, 9), generator=torch.Generator().manual_seed(0))
    return tiny.model("vits"), ids, torch.tensor([[1] * 9, [1] * 6 + [0] * 3])


def test_vits_speaks_as_the_model_with_the_same_noise(vits, monkeypatch):
    model, ids, mask = vits

    def noise_like(tensor):
        return normal_noise(tensor.shape[2], tensor.shape[1], 7).T.expand_as(tensor)

    with torch.no_grad():
        actual = speech(model, ids, mask)
        monkeypatch.setattr(torch, "randn", lambda *_: normal_noise(9, 2, 3).T[None].expand(2, -1, -1))
        monkeypatch.setattr(torch, "randn_like", noise_like)
        expected = model(ids, mask)
    assert torch.equal(actual["waveform"], expected.waveform)
    assert torch.equal(actual["spectrogram"], expected.spectrogram)


def test_vits_speaks_a_text_the_same_in_every_batch(vits):
    model, ids, mask = vits
    with torch.no_grad():
        batch = speech(model, ids, mask)["spectrogram"]
        single = speech(model, ids[1:, :6], mask[1:, :6])["spectrogram"]
    torch.testing.assert_close(batch[1:, :, : single.shape[2]], single, atol=1e-5, rtol=1e-4)


def test_the_noise_is_close_to_a_normal_distribution():
    noise = normal_noise(400, 40, 7).numpy()
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1) < 0.02
    assert abs((noise**4).mean() - 3) < 0.2
    assert np.abs(np.corrcoef(noise.T) - np.eye(40)).max() < 0.25


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("length", [19, 96, 130])
@pytest.mark.parametrize("model_type", ["timesfm", "timesfm2_5"])
def test_timesfm_forecasts_a_batch_and_its_quantiles_as_the_model_forecasts_a_list(model_type, length, positive):
    series = torch.randn(3, length, generator=torch.Generator().manual_seed(0))
    series = series.abs() if positive else series
    model = tiny.model(model_type, "AutoModelForTimeSeriesPrediction")
    with torch.no_grad():
        if model_type == "timesfm":
            expected, actual = model(list(series), freq=[0, 2, 1]), forecast(model, series, torch.tensor([0, 2, 1]))
        else:
            expected, actual = model(list(series)), forecast_by_quantiles(model, series)
    for name in ("full_predictions", "mean_predictions"):
        torch.testing.assert_close(actual[name], expected[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("patches", "offset"), [(1, 0.0), (37, 0.0), (12, 300.0)])
def test_the_running_mean_and_deviation_equal_those_of_the_models_loop(patches, offset):
    from transformers.models.timesfm2_5.modeling_timesfm2_5 import TimesFm2_5Model

    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(3, patches, 8, generator=generator, dtype=torch.float64) + offset
    masked = torch.rand(3, patches, 8, generator=generator) < 0.5
    masked[0, : patches // 2], masked[1] = True, True  # no value before the second half, and none at all
    count, mean, std, histories = *torch.zeros(3, 3, dtype=torch.float64), []
    for patch, mask in zip(steps.unbind(1), masked.unbind(1), strict=True):
        count, mean, std = TimesFm2_5Model._update_running_stats(count, mean, std, patch, mask)
        histories.append((mean, std))
    expected = [torch.stack(history, dim=1) for history in zip(*histories, strict=True)]
    for actual, of_loop in zip(timesfm.running_mean_std(steps, ~masked), expected, strict=True):
        torch.testing.assert_close(actual, of_loop, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("length", [8, 40, 104])
def test_timesfm_2_5_computes_the_states_of_a_padded_series_as_the_models_loop(length):
    model = tiny.model("timesfm2_5", "AutoModel")
    series = torch.randn(3, length, generator=torch.Generator().manual_seed(0))
    padding = (torch.arange(length) < length // 3).to(torch.int64).expand(3, -1)
    with torch.no_grad():
        expected, actual = model(series, padding), timesfm.forward(model, series, padding)
    for name in ("last_hidden_state", "loc", "scale", "context_mu", "context_sigma"):
        torch.testing.assert_close(getattr(actual, name), getattr(expected, name), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [37, 48, 91])
def test_granites_block_attention_equals_the_models(length, monkeypatch):
    from transformers.models.granite_speech5 import modeling_granite_speech5 as modeling

    model = tiny.model("granite_speech5_encoder")
    features = torch.randn(2, length, 24, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    with torch.no_grad():
        expected = model(features, attention_mask=mask).last_hidden_state
        monkeypatch.setattr(modeling.GraniteSpeech5EncoderAttention, "forward", sound.block_attention)
        actual = model(features, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("length", [1, 7, 8, 19])
def test_granite_speechs_conformer_attention_equals_the_models(length):
    from transformers import GraniteSpeechEncoderConfig
    from transformers.models.granite_speech import modeling_granite_speech as modeling

    config = GraniteSpeechEncoderConfig(hidden_dim=16, num_heads=2, dim_head=4, context_size=8, max_pos_emb=8)
    attention = modeling.GraniteSpeechConformerAttention(config).eval()
    states = torch.randn(2, length, 16, generator=torch.Generator().manual_seed(0))
    distances = torch.arange(8)[:, None] - torch.arange(8) + 8
    with torch.no_grad():
        expected, actual = attention(states, distances), sound.conformer_attention(attention, states, distances)
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("frames", "window"), [((250, 100, 1), 200), ((99,), 800), ((300, 17), 100), ((820, 1700), 800)]
)
def test_the_windows_of_qwen3_asr_end_where_the_models_do(frames, window):
    from transformers.models.qwen3_asr.modeling_qwen3_asr import get_audio_cu_seqlens

    frames = torch.tensor(frames)
    chunks = (frames[:, None] - 100 * torch.arange(17)).clamp(0, 100).flatten()
    ends = packed_sound.segment_ends(chunks, frames, window, 50)
    assert torch.equal(ends.unique(), get_audio_cu_seqlens(chunks, frames, window, 50).long())


@pytest.mark.parametrize("bias", [True, False])
def test_nemotrons_fully_masked_frames_equal_the_models(bias, monkeypatch):
    from transformers.models.nemotron_asr_streaming import modeling_nemotron_asr_streaming as modeling

    model = tiny.model("nemotron_asr_streaming", "AutoModelForRNNT")
    if not bias:
        for layer in model.encoder.layers:
            layer.self_attn.o_proj.bias = None
    features = torch.randn(2, 90, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 90, dtype=torch.int64)
    mask[1, 20:] = 0  # leaves four frames of twelve, so that most of the others attend to none of these
    with torch.no_grad():
        expected = model.get_audio_features(features, mask).pooler_output
        monkeypatch.setattr(modeling.NemotronAsrStreamingEncoderAttention, "forward", sound.nemotron_attention)
        actual = model.get_audio_features(features, mask).pooler_output
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("high", [1, 4])
def test_fastspeechs_length_regulation_equals_the_models(high):
    from transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer import length_regulator

    random = torch.Generator().manual_seed(0)
    states, durations = torch.randn(3, 6, 4, generator=random), torch.randint(0, high, (3, 6), generator=random)
    durations[2] = 0
    for speed in (1.0, 2.5):
        expected = length_regulator(states, durations.clone(), speed)
        assert torch.equal(sound.length_regulated_states(states, durations, speed), expected)


def test_fastspeechs_relative_positions_equal_the_models():
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as modeling

    encoding = tiny.model("fastspeech2_conformer", "AutoModelForTextToSpectrogram").encoder.pos_enc
    assert isinstance(encoding, modeling.FastSpeech2ConformerRelPositionalEncoding)
    states = torch.randn(2, 7, encoding.embed_dim, generator=torch.Generator().manual_seed(0))
    assert all(map(torch.equal, sound.relative_positional_encoding(encoding, states), encoding(states)))


def test_an_encodec_that_splits_audio_into_chunks_is_refused(tmp_path):
    model = tiny.model("encodec", chunk_length_s=1.0)
    assert refusal(InvalidSpec, onnxfn.export, onnxfn.spec_for(model), model, tmp_path / "out") == (
        "EncodecModel splits audio into overlapping chunks of 2000 samples, and a graph cannot loop over them; "
        "set chunk_length_s=None to encode all audio in one chunk"
    )
