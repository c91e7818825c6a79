"""The inputs of audio towers from processors: spectrograms of one length or of any length, with a mask or without.

A form is a spec of the inputs and of their dummies. Its inputs have the names of arguments of `get_audio_features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.sizes import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import always, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Kind

Forms = tuple[ExportSpec, ...]

FRAMES, WINDOW = "sound_length", "num_frames="
"""The axis of the frames of a spectrogram: of any number, or of the number that the configuration has."""

SOUNDS = compose(
    generates("spectrogram", "normal"),
    padded("right"),
    sized_in("one several", num_sounds=(2, 1, 3), sound_length=(200, 100, 300)),
)
"""Two sounds of 200 frames, and other numbers of both."""


def _spectrogram(axes: str) -> ExportSpec:
    return compose(SOUNDS, takes("input_features", f"num_sounds {axes}", "spectrogram", kind="float"))


def _masked(axes: str, mask: str, frames: str, kind: Kind = "int") -> ExportSpec:
    """A spec of a spectrogram and of the mask of its frames; bool, if a model also chooses features by it."""
    return compose(_spectrogram(axes), takes(mask, f"num_sounds {frames}", "padding_mask", kind=kind))


CHUNKED = "chunk_frames*num_chunks"
"""The axis of the frames of a spectrogram of whole chunks, in which a tower convolves it."""

CHUNKS = compose(
    reads(chunk_frames="audio_config.n_window * 2"),
    sized_in("one several", num_chunks=(3, 1, 2)),
)
"""Three chunks in each sound, and other numbers of chunks."""

CONVOLVED = compose(
    _masked(f"{FRAMES} convolved_mels=", "input_features_mask", FRAMES, kind="bool"),
    reads(convolved_mels="audio_config.subsampling_conv_channels[0]"),
)
"""Spectrograms with one value per frame for each channel of the first convolution, and a mask of their frames."""

WAVE_FRAMES = compose(
    _masked(f"{FRAMES} audio_embed_dim=", "input_features_mask", FRAMES, kind="bool"),
    reads(audio_embed_dim="audio_config.audio_embed_dim"),
    sized_in("one several", sound_length=(20, 11, 31)),
)
"""Frames of samples, each of which becomes a token, and a mask of them."""

GROUPS = "group_frames*num_groups"
"""The axis of the frames of a spectrogram of whole groups, each of which becomes a token."""

GROUPED = compose(
    _masked(f"{GROUPS} num_mel_bins=", "input_features_mask", GROUPS),
    reads(group_frames="audio_config.asr_config.subsampling_factor"),
    sized_in("one several", num_groups=(20, 11, 31)),
)
"""Spectrograms of whole groups of frames, and masks of their frames."""


def _masked_forms(mask: str) -> Forms:
    return (
        compose(_masked(f"num_mel_bins= {CHUNKED}", mask, CHUNKED), CHUNKS),
        _masked(f"num_mel_bins= {FRAMES}", mask, FRAMES),
        _masked(f"{FRAMES} num_mel_bins=", mask, FRAMES),
        _masked(f"num_mel_bins= {WINDOW}", mask, WINDOW),
        _masked(f"{FRAMES} stacked_mels=", mask, FRAMES),
    )


PLAIN: Forms = tuple(
    # in a trace of one block of attention, the number of blocks would be 1
    compose(_spectrogram(axes), sized(sound_length=from_config("encoder_config.context_size * 2 or 200")))
    for axes in (f"num_mel_bins= {FRAMES}", f"{FRAMES} num_mel_bins=", f"num_mel_bins= {WINDOW}")
)
"""Spectrograms without a mask."""

WAVE_DUMMIES = compose(
    generates("wave", "normal"),
    padded("right"),
    sized_in("one several", num_sounds=(2, 1, 3), num_samples=(16000, 9600, 12000)),
)
"""Two sounds of 16,000 samples, and other numbers of both."""

WAVES: Forms = tuple(
    compose(
        WAVE_DUMMIES,
        takes("input_values", f"num_sounds {axes}", "wave", kind="float"),
        takes("padding_mask", "num_sounds num_samples", "padding_mask", kind="bool"),
    )
    for axes in ("num_samples", "1 num_samples")
)
"""Waveforms and their masks."""

FRAMES_OF_SAMPLES = compose(
    WAVE_DUMMIES,
    takes("input_values", "num_sounds step_samples*num_steps", "wave", kind="float"),
    takes("input_values_mask", "num_sounds step_samples*num_steps", "padding_mask"),
    reads(step_samples=" * ".join(f"audio_config.patch_sizes[{layer}]" for layer in range(4))),
    sized_in("one several", num_steps=(8, 5, 6)),
)
"""Waveforms of whole steps, each of which becomes a token, and their masks."""

CODES = compose(
    SOUNDS,
    takes("audio_input_ids", f"num_sounds {FRAMES} num_codebooks=", "codes"),
    takes("audio_input_ids_mask", f"num_sounds {FRAMES}", "padding_mask"),
    generates("codes", "integers", high=from_config("audio_config.codebook_size")),
    reads(num_codebooks="audio_config.num_codebooks"),
    sized_in("one several", sound_length=(20, 11, 31)),
)
"""The values of a spectrogram as whole numbers, and the mask of its frames."""

COUNTED = compose(
    _spectrogram(f"num_mel_bins= {FRAMES}"),
    takes("chunk_sample_lengths", "num_sounds", "sample_counts"),
    generates("sample_counts", "integers", low=8000, high=16000),
)
"""Spectrograms, and the number of samples of each sound."""

SOUND_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "input_features input_features_mask padding_mask": tuple(
            compose(form, always(padding_mask=None)) for form in _masked_forms("input_features_mask")
        ),
        "input_features input_features_mask": (
            WAVE_FRAMES,
            CONVOLVED,
            GROUPED,
            *_masked_forms("input_features_mask"),
            _masked(f"{FRAMES} num_mel_bins=", "input_features_mask", FRAMES, kind="bool"),
        ),
        "input_features feature_attention_mask": _masked_forms("feature_attention_mask"),
        "input_features chunk_sample_lengths": (COUNTED,),
        "input_features": PLAIN,
        # the same features for the same sound
        "input_values padding_mask sample": tuple(compose(form, always(sample=False)) for form in WAVES),
        "input_values padding_mask": WAVES,
        "input_values input_values_mask": (FRAMES_OF_SAMPLES,),
        "audio_input_ids audio_input_ids_mask": (CODES,),
    }
)
"""The arguments of `get_audio_features` -> the forms, in the order in which to try them."""
