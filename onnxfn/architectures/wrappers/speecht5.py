"""The three graphs of SpeechT5 for speech from text, one text at a time (modeling_speecht5, transformers 5.23)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.renamed import called
from onnxfn.architectures.wrappers.modules import module
from onnxfn.architectures.wrappers.vits import PRIME, pseudo_random
from onnxfn.specs.errors import InvalidSpec


def encoder(model: Any, input_ids: Tensor) -> dict[str, Tensor]:
    """Token ids -> hidden states and their mask."""
    mask = torch.ones_like(input_ids)
    outputs = model.speecht5.encoder(input_values=input_ids, attention_mask=mask, return_dict=True)
    return {"encoder_outputs": outputs.last_hidden_state, "encoder_attention_mask": mask}


def decoder(
    model: Any,
    output_sequence: Tensor,
    speaker_embeddings: Tensor,
    encoder_hidden_states: Tensor,
    encoder_attention_mask: Tensor,
    past_key_values: Any = None,
) -> dict[str, Any]:
    """All frames so far -> the next frames. `output_sequence` holds all frames, the past those before the last."""
    frames = prenet_output(model.speecht5.decoder.prenet, output_sequence, speaker_embeddings)
    layers = [] if past_key_values is None else past_key_values.self_attention_cache.layers
    past = layers[0].keys.shape[-2] if layers and layers[0].is_initialized else 0
    outputs = called(
        model.speecht5.decoder.wrapped_decoder,
        hidden_states=frames.index_select(1, torch.arange(past, frames.shape[1])),
        encoder_hidden_states=encoder_hidden_states,
        encoder_attention_mask=encoder_attention_mask,
        past_key_values=past_key_values,
        use_cache=past_key_values is not None,
        return_dict=True,
    )
    last, postnet = outputs.last_hidden_state[0, -1], model.speech_decoder_postnet
    spectrum = postnet.feat_out(last).view(model.config.reduction_factor, model.config.num_mel_bins)
    return {
        "output_sequence_out": torch.cat((output_sequence, spectrum[None, -1:]), dim=1),
        "spectrum": spectrum,
        "prob": postnet.prob_out(last).sigmoid(),
        "past_key_values": past_key_values,
    }


def postnet_and_vocoder(model: Any) -> Any:
    """All frames -> waveform. InvalidSpec if the model has no vocoder: that of SpeechT5 is a separate model."""
    if getattr(model, "vocoder", None) is None:
        raise InvalidSpec(
            f"{type(model).__name__} has no vocoder, which computes the waveform; before the export set "
            "model.vocoder = SpeechT5HifiGan.from_pretrained('microsoft/speecht5_hifigan')"
        )

    return module(
        lambda spectrogram: {"waveform": model.vocoder(model.speech_decoder_postnet.postnet(spectrogram[None])[0])}
    )


def prenet_output(prenet: Any, frames: Tensor, speaker: Tensor) -> Tensor:
    """The output of the decoder's prenet; its dropout, which evaluation mode has too, has a constant mask here."""
    p = prenet.config.speech_decoder_prenet_dropout
    for index, layer in enumerate(prenet.layers):
        units = layer(frames).relu()
        frames = units * dropout_mask(units.shape[1], units.shape[2], index, p) / (1 - p)
    positioned = prenet.encode_positions(prenet.final_layer(frames))
    speakers = functional.normalize(speaker)[:, None].expand(-1, positioned.shape[1], -1)
    mixed: Tensor = prenet.speaker_embeds_layer(torch.cat([positioned, speakers], dim=-1)).relu()
    return mixed


def dropout_mask(frames: int, units: int, layer: int, share: float) -> Tensor:
    """Pseudo-random booleans `[frames, units]`, of which `share` are true."""
    return pseudo_random(frames, units, (layer + 1) * 977) < int(share * PRIME)
