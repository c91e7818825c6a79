"""MusicGen, Pop2Piano and EnCodec (transformers 5.23)."""

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec


def single_chunk_encoder(model: Any) -> Any:
    """Audio -> codes `[1, batch, codebooks, frames]` of the lowest bandwidth. InvalidSpec if a model splits audio."""
    if model.config.chunk_length is not None:
        raise InvalidSpec(
            f"{type(model).__name__} splits audio into overlapping chunks of {model.config.chunk_length} samples, and "
            "a graph cannot loop over them; set chunk_length_s=None to encode all audio in one chunk"
        )

    def forward(input_values: Any) -> dict[str, Any]:
        codes, _ = model._encode_frame(input_values, model.config.target_bandwidths[0])
        return {"audio_codes": codes[None]}

    return module(forward)


def single_chunk_decoder(model: Any, audio_codes: Tensor) -> Any:
    """Codes `[1, batch, codebooks, frames]` -> audio, by EnCodec or by that in MusicGen."""
    return getattr(model, "audio_encoder", model).decode(audio_codes, audio_scales=[None], return_dict=True)


def build_delay_pattern_mask(
    model: Any, input_ids: Tensor, pad_token_id: Tensor, max_length: Tensor
) -> dict[str, Tensor]:
    """Codes -> delayed codes, and the delay pattern, which is -1 where a code is to be generated."""
    delayed, pattern = model.decoder.build_delay_pattern_mask(input_ids, pad_token_id, max_length.item())
    return {"input_ids_edited": delayed, "delay_pattern_mask": pattern}


def mel_conditioner(model: Any, input_features: Tensor, attention_mask: Tensor, composer: Tensor) -> dict[str, Tensor]:
    """Mel features, their mask and a composer's number -> the encoder's input and mask, as in the original."""
    first_mask = attention_mask[:, :1]
    features = model.mel_conditioner(input_features, composer, 0)
    return {
        "conditioned_features": torch.where(first_mask[:, :, None] > 0, features, 0.0),
        "conditioned_attention_mask": torch.cat([first_mask, attention_mask], dim=1),
    }
