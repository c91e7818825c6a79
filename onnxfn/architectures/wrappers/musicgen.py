"""The graphs that Musicgen is made of beside its decoder (modeling_musicgen, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def text_encoder(model: Any) -> Any:
    """The encoder of the text that tells what to play."""
    return model.text_encoder


def encodec_decode(model: Any) -> Any:
    """From codes `[1, batch, codebooks, length]` to sound."""

    def forward(audio_codes: Tensor) -> Any:
        return model.audio_encoder.decode(audio_codes, audio_scales=[None], return_dict=True)

    return module(forward)


def build_delay_pattern_mask(model: Any) -> Any:
    """From codes to the same under the rule that each codebook comes one later, and where -1 says: to be written."""

    def forward(input_ids: Tensor, pad_token_id: Tensor, max_length: Tensor) -> dict[str, Tensor]:
        edited, rule = model.decoder.build_delay_pattern_mask(input_ids, pad_token_id, max_length.item())
        return {"input_ids_edited": edited, "delay_pattern_mask": rule}

    return module(forward)
