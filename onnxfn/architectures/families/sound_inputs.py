"""What processors give to towers that hear: spectrograms of any length or of one length, with a mask or without.

A form is a spec of the inputs, with the names of the arguments of `get_audio_features`, and of their dummies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.facts import case, takes
from onnxfn.specs.spec import ExportSpec

Forms = tuple[ExportSpec, ...]

FRAMES, WINDOW = "sound_length", "num_frames="
"""The axis of the frames of a spectrogram: of any number, or of the number that the configuration has."""

SOUNDS = compose(
    generates("spectrogram", "normal"),
    padded("right"),
    sized(num_sounds=2, sound_length=200),
    case("one", sized(num_sounds=1, sound_length=100)),
    case("several", sized(num_sounds=3, sound_length=300)),
)
"""Two sounds of 200 frames, and other numbers of both."""


def _spectrogram(axes: str) -> ExportSpec:
    return compose(SOUNDS, takes("input_features", f"num_sounds {axes}", "spectrogram", kind="float"))


def _masked(axes: str, mask: str, frames: str) -> ExportSpec:
    """A spec of a spectrogram and of the mask of its frames."""
    return compose(_spectrogram(axes), takes(mask, f"num_sounds {frames}", "padding_mask"))


def _masked_forms(mask: str) -> Forms:
    return (
        _masked(f"num_mel_bins= {FRAMES}", mask, FRAMES),
        _masked(f"{FRAMES} num_mel_bins=", mask, FRAMES),
        _masked(f"num_mel_bins= {WINDOW}", mask, WINDOW),
        _masked(f"{FRAMES} stacked_mels=", mask, FRAMES),
    )


PLAIN: Forms = (
    _spectrogram(f"num_mel_bins= {FRAMES}"),
    _spectrogram(f"{FRAMES} num_mel_bins="),
    _spectrogram(f"num_mel_bins= {WINDOW}"),
)
"""Spectrograms without a mask."""

WAVES = compose(
    takes("input_values", "num_sounds num_samples", "wave", kind="float"),
    takes("padding_mask", "num_sounds num_samples", "padding_mask", kind="bool"),
    generates("wave", "normal"),
    padded("right"),
    sized(num_sounds=2, num_samples=16000),
    case("one", sized(num_sounds=1, num_samples=9600)),
    case("several", sized(num_sounds=3, num_samples=12000)),
)
"""Waveforms and their masks."""

SOUND_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "input_features input_features_mask": _masked_forms("input_features_mask"),
        "input_features feature_attention_mask": _masked_forms("feature_attention_mask"),
        "input_features": PLAIN,
        "input_values padding_mask": (WAVES,),
    }
)
"""The arguments of `get_audio_features` -> the forms, in the order in which to try them."""
