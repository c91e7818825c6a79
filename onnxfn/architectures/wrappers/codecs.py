"""From sound to codes and back, and from spectrograms to sound (modeling_dac, modeling_encodec, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def encoder(model: Any) -> Any:
    """From sound `[batch, channels, samples]` to the codes of each of its codebooks."""
    return module(lambda input_values: model.encode(input_values, return_dict=True))


def decoder(model: Any) -> Any:
    """From codes to sound."""
    return module(lambda audio_codes: model.decode(audio_codes=audio_codes, return_dict=True))


def single_chunk_encoder(model: Any) -> Any:
    """From sound to the codes `[1, batch, codebooks, frames]` of the least bandwidth, all of it in one chunk."""
    if model.config.chunk_length is not None:
        raise InvalidSpec(
            f"{type(model).__name__} goes through sound in chunks of {model.config.chunk_length} that overlap, and a "
            "graph has no loop for them; chunk_length_s=None takes it at once"
        )

    def forward(input_values: Any) -> dict[str, Any]:
        codes, _ = model._encode_frame(input_values, model.config.target_bandwidths[0])
        return {"audio_codes": codes[None]}

    return module(forward)


def single_chunk_decoder(model: Any) -> Any:
    """From codes `[1, batch, codebooks, frames]` to sound."""
    return module(lambda audio_codes: model.decode(audio_codes, audio_scales=[None], return_dict=True))


def vocoder(model: Any) -> Any:
    """From spectrograms to sound, of a vocoder that gives a tensor and no record."""
    return module(lambda spectrogram: {"waveform": model(spectrogram)})
