"""Speech from text by VITS, with the same noise in each call (modeling_vits, transformers 5.23)."""

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.sound import frames_of_tokens

PRIME = 65521
"""Pseudo-random numbers are integers below this, so that PyTorch and ONNX compute the same."""


def speech(model: Any, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
    """Token ids and their mask -> waveforms and spectrograms, with noise that depends on position and channel alone."""
    mask = attention_mask[:, :, None].to(model.text_encoder.embed_tokens.weight.dtype)
    text = model.text_encoder(input_ids=input_ids, padding_mask=mask, attention_mask=attention_mask, return_dict=True)
    token_frames = durations(model, text.last_hidden_state.transpose(1, 2), mask.transpose(1, 2))
    lengths = token_frames.sum(dim=1).clamp(min=1)
    frame_of_token = frames_of_tokens(token_frames, lengths.max()).to(mask.dtype)
    frames = frame_of_token.shape[1]
    frame_mask = (torch.arange(frames) < lengths[:, None])[:, None].to(mask.dtype)
    means, log_variances = (frame_of_token @ tensor for tensor in (text.prior_means, text.prior_log_variances))
    noise = normal_noise(frames, means.shape[-1], 7).to(mask.dtype)
    latents = (means + noise * log_variances.exp() * model.noise_scale).transpose(1, 2)
    spectrogram = model.flow(latents, frame_mask, None, reverse=True) * frame_mask
    return {"waveform": model.decoder(spectrogram, None)[:, 0], "spectrogram": spectrogram}


def durations(model: Any, hidden_states: Tensor, mask: Tensor) -> Tensor:
    """The number of frames of each token, integers `[batch, length]`."""
    predictor = model.duration_predictor
    if model.config.use_stochastic_duration_prediction:
        # As VitsStochasticDurationPredictor, with constant noise; it also skips the first of its convolution flows.
        condition = predictor.conv_proj(predictor.conv_dds(predictor.conv_pre(hidden_states), mask)) * mask
        affine, _, *flows = predictor.flows
        noise = normal_noise(hidden_states.shape[2], 2, 3).to(condition.dtype).T * model.noise_scale_duration
        latents = noise.expand(hidden_states.shape[0], -1, -1)
        for flow in (*reversed(flows), affine):
            latents, _ = flow(latents.flip(1), mask, global_conditioning=condition, reverse=True)
        log_durations = latents[:, :1]
    else:
        log_durations = predictor(hidden_states, mask, None)
    return (log_durations.exp() * mask * (1.0 / model.speaking_rate)).ceil()[:, 0].long()


def normal_noise(positions: int, channels: int, seed: int) -> Tensor:
    """Pseudo-random numbers `[positions, channels]` of a normal distribution."""
    radius, turn = (
        (pseudo_random(positions, channels, start) + 0.5) / PRIME for start in (seed * 977, seed * 1543 + 11)
    )
    return (-2 * radius.log()).sqrt() * (2 * torch.pi * turn).cos()


def pseudo_random(rows: int, columns: int, start: int) -> Tensor:
    """Pseudo-random integers from 0 up to PRIME, `[rows, columns]`."""
    numbers = torch.arange(rows)[:, None] * 40503 + torch.arange(columns) * 30011 + start
    for step in (12345, 54321, 33333):
        numbers = (numbers % PRIME) * (numbers % PRIME) + numbers % 7919 + step
    return numbers % PRIME
