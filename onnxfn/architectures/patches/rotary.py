"""Angles of rotary embeddings whose frequencies depend on the largest position (transformers 5.24).

The originals branch on that position, or write frequencies into a buffer. A graph has both results, and `where`.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor

from onnxfn.specs.plan.thresholds import LONGROPE, is_scaled


def scaled_angles(self: Any, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
    """For the call of a module whose forward has `dynamic_rope_update`: cosines and sines of all positions.

    With dynamic scaling the original keeps the frequencies of the longest text that it has read. These are those of a
    model that has read no other text.
    """
    of_layers = {} if layer_type is None else {"layer_type": layer_type}
    prefix = "" if layer_type is None else f"{layer_type}_"
    rotary = copy.copy(self)
    rotary._buffers = {**self._buffers, f"{prefix}inv_freq": _frequencies(self, x, position_ids, layer_type, prefix)}
    angles: tuple[Tensor, Tensor] = inspect.unwrap(type(self).forward)(rotary, x, position_ids, **of_layers)
    return angles


def _frequencies(self: Any, x: Tensor, position_ids: Tensor, layer_type: str | None, prefix: str) -> Tensor:
    """The frequencies of short texts, or of those that are longer than the texts of the training."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    types, scalings = self.rope_type, self.config.rope_parameters
    rope_type, scaling = (types, scalings) if layer_type is None else (types[layer_type], scalings[layer_type])
    short: Tensor = getattr(self, f"{prefix}original_inv_freq")
    if not is_scaled(rope_type):
        return short
    length = position_ids.max() + 1
    is_longrope = rope_type == LONGROPE
    original = scaling["original_max_position_embeddings"] if is_longrope else self.original_max_seq_len
    of_long = original + 1 if is_longrope else length
    long, _ = ROPE_INIT_FUNCTIONS[rope_type](self.config, x.device, seq_len=of_long, layer_type=layer_type)
    return torch.where(length > original, long, short)


def phimoe_angles(self: Any, x: Tensor, position_ids: Any = None) -> tuple[Tensor, Tensor]:
    """For PhimoeRotaryEmbedding.forward: the largest position decides a factor, but not the frequencies."""
    scaling = self.config.rope_parameters
    inv_freq, factor = self.rope_init_fn(self.config)
    if scaling["rope_type"] != "default":
        is_long = position_ids.max() + 1 > scaling["original_max_position_embeddings"]
        factor = torch.where(is_long, scaling["long_mscale"], scaling["short_mscale"])
    freqs = position_ids[..., None].float() * inv_freq.to(device=x.device, dtype=torch.float)
    angles = torch.cat((freqs, freqs), dim=-1)
    return (angles.cos() * factor).to(x.dtype), (angles.sin() * factor).to(x.dtype)
