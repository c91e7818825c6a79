"""From sound to codes and back, and from spectrograms to sound (modeling_dac, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from onnxfn.parts.modules import module


def coded(model: Any) -> Any:
    """From sound `[batch, channels, samples]` to the codes of each of its codebooks."""
    return module(lambda input_values: model.encode(input_values, return_dict=True))


def sounded(model: Any) -> Any:
    """From codes to sound."""
    return module(lambda audio_codes: model.decode(audio_codes=audio_codes, return_dict=True))


def waveform(model: Any) -> Any:
    """From spectrograms to sound, of a vocoder that gives a tensor and no record."""
    return module(lambda spectrogram: {"waveform": model(spectrogram)})
