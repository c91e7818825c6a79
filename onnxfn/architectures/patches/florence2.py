"""The attention of Florence-2 among channels, for any number of tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def channel_attention(self: Any, hidden_states: Tensor) -> Tensor:
    """For Florence2VisionChannelAttention.forward (transformers 5.23), whose scale is a number of Python."""
    batch, tokens, width = hidden_states.shape
    q, k, v = self.qkv(hidden_states).reshape(batch, tokens, 3, self.groups, -1).permute(2, 0, 3, 4, 1).unbind(0)
    scale = torch.ones_like(hidden_states[0, :, 0]).sum().rsqrt()
    weights = (scale * q @ k.transpose(-2, -1)).softmax(-1)
    mixed: Tensor = self.proj((weights @ v).permute(0, 3, 1, 2).reshape(batch, tokens, width))
    return mixed
