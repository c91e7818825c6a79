"""Models that hear and speak: rows. Inputs and tasks are those of Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.edits import always, case, gives, patched, takes
from onnxfn.families import audio, audio_of_voices, convolved_frames
from onnxfn.generators import generates, padded, sized
from onnxfn.normalizers import from_config, reads
from onnxfn.records import ExportSpec
from onnxfn.tasks import loaded, tasked

hubert = compose(audio, convolved_frames)
wav2vec2 = compose(audio_of_voices, convolved_frames)

# Spectrograms of the one size that the model has places for.
spectrogram = compose(
    takes("input_values", "batch_size max_length= num_mel_bins=", "mel", kind="float"),
    generates("mel", "normal"),
    reads(max_length="max_length", num_mel_bins="num_mel_bins"),
    sized(batch_size=2),
)
audio_spectrogram_transformer = compose(
    spectrogram,
    always(return_dict=True),
    tasked("feature-extraction", spec=gives("last_hidden_state", "batch_size _ _")),
    tasked("audio-classification"),
)

# One draw of its noise, always the same: see parts/vits.py.
TEXTS = "text_batch_size sequence_length"
VITS = "transformers.models.vits.modeling_vits"
vits = compose(
    takes("input_ids", TEXTS, "token_ids"),
    takes("attention_mask", TEXTS, "padding_mask"),
    generates("token_ids", "integers", high=from_config("vocab_size")),
    padded("right"),
    sized(text_batch_size=2, sequence_length=16),
    case("one", sized(text_batch_size=1, sequence_length=7), padded("none")),
    case("right-padded", sized(text_batch_size=3, sequence_length=11), padded("right")),
    case("short", sized(text_batch_size=3, sequence_length=3), padded("right")),
    ExportSpec(runs="onnxfn.parts.vits:speech"),
    tasked(
        "text-to-audio",
        spec=compose(
            loaded("AutoModelForTextToWaveform"),
            gives("waveform", "text_batch_size n_samples"),
            gives("spectrogram", "text_batch_size _ num_bins"),
        ),
    ),
    patched(
        f"{VITS}:_unconstrained_rational_quadratic_spline",
        by="onnxfn.patches.vits:spline",
        why="selects values by a mask, so that their number depends on them",
    ),
    patched(
        f"{VITS}:VitsAttention._get_relative_embeddings",
        by="onnxfn.patches.vits:relative",
        why="branches on whether a text is longer than the window",
    ),
    patched(
        f"{VITS}:fused_add_tanh_sigmoid_multiply",
        by="onnxfn.patches.vits:gated",
        why="cuts at a number that it keeps in a tensor",
    ),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "wav2vec2": wav2vec2,
        "audio-spectrogram-transformer": audio_spectrogram_transformer,
        "data2vec-audio": wav2vec2,
        "hubert": hubert,
        "sew": hubert,
        "sew-d": hubert,
        "unispeech": hubert,
        "unispeech-sat": wav2vec2,
        "wav2vec2-conformer": wav2vec2,
        "vits": vits,
        "wavlm": wav2vec2,
    }
)
