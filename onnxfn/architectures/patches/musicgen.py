"""MusicGen and Encodec without what a trace fixes: writes into slices, searches for indices, sizes held in tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.torch_names import torch_name


def delay_pattern_mask(
    decoder: Any, input_ids: Tensor, pad_token_id: Tensor, max_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """For MusicgenForCausalLM.build_delay_pattern_mask (modeling_musicgen, transformers 5.23).

    Returns the codes, each codebook delayed by one step more than the one before, and the delay pattern up to
    `max_length`, which is -1 where a code is to be generated. The original writes into slices, and searches for the
    first -1. That is the step after the given codes, since the first codebook has no delay.
    If `max_length` is too short for all codebooks, the codes are returned unchanged and the pattern is -1 throughout.
    """
    max_length = decoder.generation_config.max_length if max_length is None else max_length
    torch_name("check")(max_length >= 0)
    codebooks, steps = decoder.num_codebooks, decoder.num_codebooks // decoder.config.audio_channels
    codes = input_ids.reshape(-1, codebooks, input_ids.shape[-1])
    length = codes.shape[-1]
    delays = (torch.arange(codebooks) // decoder.config.audio_channels)[:, None]
    pattern = _delayed_codes(codes, torch.arange(max_length), delays, length, pad_token_id, max_length - steps)
    delayed = _delayed_codes(codes, torch.arange(length), delays, length, pad_token_id, max_length - steps)
    too_short = torch.full((1,), max_length) < 2 * steps - 1
    return (
        torch.where(too_short, codes, delayed).reshape(-1, length),
        torch.where(too_short, -1, pattern).reshape(input_ids.shape[0], -1),
    )


def _delayed_codes(
    codes: Tensor, positions: Tensor, delays: Tensor, length: int, pad_token_id: Tensor, last: int
) -> Tensor:
    """The delayed code at each position: -1 after the given codes, padding outside of the codebook's range."""
    index = (positions - delays).clamp(0, length - 1)
    shifted = codes.gather(2, index.expand(codes.shape[0], -1, -1))
    delayed = torch.where((positions >= delays) & (positions < length + delays), shifted, -1)
    return torch.where((positions <= delays) | (positions > delays + last), pad_token_id, delayed)


def conv1d_output(layer: Any, hidden_states: Tensor, padding_cache: Any = None) -> Tensor:
    """For EncodecConv1d.forward (modeling_encodec, transformers 5.23), which keeps its strides in tensors.

    WavTokenizerConv1d is a copy. MimiConv1d and PocketTTSAudioTokenizerConv1d are copies without a norm; a
    `padding_cache` cannot be traced. The input must be longer than its padding: the original pads a shorter input
    differently.
    """
    if padding_cache is not None:
        raise NotImplementedError("a sound that comes in pieces needs a cache of padding, which cannot be traced")
    stride = layer.conv.stride[0]
    total = (layer.conv.kernel_size[0] - 1) * layer.conv.dilation[0] + 1 - stride
    right = 0 if layer.causal else total // 2
    padding = (total - right, right + -hidden_states.shape[-1] % stride)
    features = layer.conv(functional.pad(hidden_states, padding, layer.pad_mode))
    normalized: Tensor = layer.norm(features) if getattr(layer, "norm_type", "") == "time_group_norm" else features
    return normalized
