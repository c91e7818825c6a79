"""The audio codec EnCodec (modeling_encodec, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def single_chunk_encoder(model: Any) -> Any:
    """Audio -> codes `[1, batch, codebooks, frames]` of the lowest bandwidth, all audio in one chunk.

    Raises:
        InvalidSpec: The configuration splits audio into chunks.
    """
    if model.config.chunk_length is not None:
        raise InvalidSpec(
            f"{type(model).__name__} splits audio into overlapping chunks of {model.config.chunk_length} samples, and "
            "a graph cannot loop over them; set chunk_length_s=None to encode all audio in one chunk"
        )

    def forward(input_values: Any) -> dict[str, Any]:
        codes, _ = model._encode_frame(input_values, model.config.target_bandwidths[0])
        return {"audio_codes": codes[None]}

    return module(forward)


def single_chunk_decoder(model: Any) -> Any:
    """Codes `[1, batch, codebooks, frames]` -> audio, by EnCodec or by that in MusicGen."""
    codec = getattr(model, "audio_encoder", model)
    return module(lambda audio_codes: codec.decode(audio_codes, audio_scales=[None], return_dict=True))
