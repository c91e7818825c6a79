"""What VITS says of a text, with the same noise each time (modeling_vits, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module

PRIME = 65521
"""Draws are whole numbers below this, so that PyTorch and ONNX make the same."""


def speech(model: Any) -> Any:
    """From texts and the mask over them to waveforms and what these are made of.

    The model draws noise anew in each call, for how long each token lasts and for how it sounds. A file that did so
    could not be checked; here it is one draw, of the model's own strength, that depends on place and channel alone:
    a text sounds alike in every batch.
    """
    import torch

    def forward(input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        mask = attention_mask[:, :, None].to(model.text_encoder.embed_tokens.weight.dtype)
        read = model.text_encoder(
            input_ids=input_ids, padding_mask=mask, attention_mask=attention_mask, return_dict=True
        )
        lasting = durations(model, read.last_hidden_state.transpose(1, 2), mask.transpose(1, 2))
        lengths = lasting.sum(dim=1).clamp(min=1)
        frames = lengths.max().item()
        torch._check(frames >= 1)
        places = torch.arange(frames)
        ends = lasting.cumsum(dim=1)[:, None]
        spoken = ((places[:, None] < ends) & (places[:, None] >= ends - lasting[:, None])).to(mask.dtype)
        there = (places < lengths[:, None])[:, None].to(mask.dtype)
        means, strengths = (spoken @ one for one in (read.prior_means, read.prior_log_variances))
        noise = normal_noise(frames, means.shape[-1], 7).to(mask.dtype)
        latents = (means + noise * strengths.exp() * model.noise_scale).transpose(1, 2)
        spectrogram = model.flow(latents, there, None, reverse=True) * there
        return {"waveform": model.decoder(spectrogram, None)[:, 0], "spectrogram": spectrogram}

    return module(forward)


def durations(model: Any, states: Tensor, mask: Tensor) -> Tensor:
    """How many frames each token lasts, `[batch, length]`, whole numbers."""
    predictor = model.duration_predictor
    if model.config.use_stochastic_duration_prediction:
        logarithms = _flowed(predictor, states, mask, model.noise_scale_duration)
    else:
        logarithms = predictor(states, mask, None)
    return (logarithms.exp() * mask * (1.0 / model.speaking_rate)).ceil()[:, 0].long()


def _flowed(predictor: Any, states: Tensor, mask: Tensor, scale: float) -> Tensor:
    """What VitsStochasticDurationPredictor makes of states and noise."""
    made = predictor.conv_proj(predictor.conv_dds(predictor.conv_pre(states), mask)) * mask
    affine, _, *flows = predictor.flows  # its own forward leaves the first of its flows out
    noise = normal_noise(states.shape[2], 2, 3).to(made.dtype).T * scale
    latents = noise.expand(states.shape[0], -1, -1)
    for flow in (*reversed(flows), affine):
        latents, _ = flow(latents.flip(1), mask, global_conditioning=made, reverse=True)
    return latents[:, :1]


def normal_noise(places: int, channels: int, seed: int) -> Tensor:
    """`[places, channels]` of numbers that look drawn from a normal distribution."""
    import torch

    def uniform(start: int) -> Tensor:
        made = torch.arange(places)[:, None] * 40503 + torch.arange(channels) * 30011 + start
        for step in (12345, 54321, 33333):
            made = (made % PRIME) * (made % PRIME) + made % 7919 + step
        return (made % PRIME + 0.5) / PRIME

    return (-2 * uniform(seed * 977).log()).sqrt() * (2 * torch.pi * uniform(seed * 1543 + 11)).cos()
