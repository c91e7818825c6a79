"""From sound to codes and back, and from spectrograms to sound (modeling_dac, modeling_encodec, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.errors import InvalidSpec
from onnxfn.parts.modules import module


def coded(model: Any) -> Any:
    """From sound `[batch, channels, samples]` to the codes of each of its codebooks."""
    return module(lambda input_values: model.encode(input_values, return_dict=True))


def sounded(model: Any) -> Any:
    """From codes to sound."""
    return module(lambda audio_codes: model.decode(audio_codes=audio_codes, return_dict=True))


def coded_whole(model: Any) -> Any:
    """EnCodec's codes `[1, batch, codebooks, length]` of sound that is not cut; the fewest codebooks that it has.

    InvalidSpec for a model that cuts sound into chunks: its codes are as many lists as there are chunks.
    """
    if model.config.chunk_length is not None or model.config.normalize:
        raise InvalidSpec(
            "this EnCodec cuts sound into chunks and scales them, which one graph cannot; export a model whose "
            "configuration has chunk_length_s=None and normalize=False, as encodec_24khz"
        )

    def forward(input_values: Tensor) -> dict[str, Tensor]:
        codes, _ = model._encode_frame(input_values, model.config.target_bandwidths[0])
        return {"audio_codes": codes[None]}

    return module(forward)


def sounded_whole(model: Any) -> Any:
    """From EnCodec's codes `[1, batch, codebooks, length]` to sound."""
    return module(lambda audio_codes: model.decode(audio_codes, audio_scales=[None], return_dict=True))


def waveform(model: Any) -> Any:
    """From spectrograms to sound, of a vocoder that gives a tensor and no record."""
    return module(lambda spectrogram: {"waveform": model(spectrogram)})
