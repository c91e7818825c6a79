"""The three graphs that SpeechT5 speaks with, one text at a time (modeling_speecht5, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module
from onnxfn.specs.errors import InvalidSpec

PRIME = 65521
"""Draws are whole numbers below this, so that PyTorch and ONNX make the same."""


def encoder(model: Any) -> Any:
    """From a text to its states and the mask over them."""
    import torch

    def forward(input_ids: Tensor) -> dict[str, Tensor]:
        mask = torch.ones_like(input_ids)
        states = model.speecht5.encoder(input_values=input_ids, attention_mask=mask, return_dict=True)
        return {"encoder_outputs": states.last_hidden_state, "encoder_attention_mask": mask}

    return module(forward)


def decoder(model: Any) -> Any:
    """From the frames so far to the next: `output_sequence` is all of them, and the past is of those before the new."""
    import torch

    def forward(
        output_sequence: Tensor,
        speaker_embeddings: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor,
        past_key_values: Any = None,
    ) -> dict[str, Any]:
        frames = prenet_output(model.speecht5.decoder.prenet, output_sequence, speaker_embeddings)
        made = model.speecht5.decoder.wrapped_decoder(
            hidden_states=frames.index_select(1, torch.arange(_kept(past_key_values), frames.shape[1])),
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=past_key_values,
            use_cache=past_key_values is not None,
            return_dict=True,
        )
        last, ends = made.last_hidden_state[0, -1], model.speech_decoder_postnet
        spectrum = ends.feat_out(last).view(model.config.reduction_factor, model.config.num_mel_bins)
        return {
            "output_sequence_out": torch.cat((output_sequence, spectrum[None, -1:]), dim=1),
            "spectrum": spectrum,
            "prob": ends.prob_out(last).sigmoid(),
            "past_key_values": past_key_values,
        }

    return module(forward)


def postnet_and_vocoder(model: Any) -> Any:
    """From all frames to a waveform; InvalidSpec when the model has no vocoder, which is a model of its own."""
    if getattr(model, "vocoder", None) is None:
        raise InvalidSpec(
            f"{type(model).__name__} has no vocoder, which makes the waveform; before the export say "
            "model.vocoder = SpeechT5HifiGan.from_pretrained('microsoft/speecht5_hifigan')"
        )

    def forward(spectrogram: Tensor) -> dict[str, Tensor]:
        return {"waveform": model.vocoder(model.speech_decoder_postnet.postnet(spectrogram[None])[0])}

    return module(forward)


def prenet_output(prenet: Any, frames: Tensor, speaker: Tensor) -> Tensor:
    """What the decoder's prenet makes of frames, with one draw of its dropout, always the same.

    The model drops out in evaluation too, and draws anew in each call. A file that did so could not be checked; this
    draw differs from frame to frame and from unit to unit as the model's does.
    """
    import torch
    from torch.nn import functional

    share = prenet.config.speech_decoder_prenet_dropout
    for index, layer in enumerate(prenet.layers):
        made = layer(frames).relu()
        frames = made * dropout_mask(made.shape[1], made.shape[2], index, share) / (1 - share)
    placed = prenet.encode_positions(prenet.final_layer(frames))
    voice = functional.normalize(speaker)[:, None].expand(-1, placed.shape[1], -1)
    mixed: Tensor = prenet.speaker_embeds_layer(torch.cat([placed, voice], dim=-1)).relu()
    return mixed


def dropout_mask(frames: int, units: int, layer: int, share: float) -> Tensor:
    """`[frames, units]` of true and false that look drawn, this share of them true."""
    import torch

    made = torch.arange(frames)[:, None] * 40503 + torch.arange(units) * 30011 + (layer + 1) * 977
    for step in (12345, 54321, 33333):
        made = (made % PRIME) * (made % PRIME) + made % 7919 + step
    return made % PRIME < int(share * PRIME)


def _kept(past_key_values: Any) -> int:
    """How many frames a past is of."""
    layers = [] if past_key_values is None else past_key_values.self_attention_cache.layers
    return layers[0].keys.shape[-2] if layers and layers[0].is_initialized else 0
