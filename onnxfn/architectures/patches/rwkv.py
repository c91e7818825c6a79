"""RWKV without a loop over the tokens of the traced text (modeling_rwkv, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.recurrent import final_state_and_outputs


def linear_attention(
    time_decay: Tensor,
    time_first: Tensor,
    key: Tensor,
    value: Tensor,
    state: Any = None,
    return_state: bool = False,  # noqa: FBT001, FBT002 - the original's signature
) -> tuple[Tensor, Any]:
    """For rwkv_linear_attention: the weighted mean of the values so far, and its numerator, denominator and maximum.

    `key` and `value` are `[batch, length, size]`. The sums are divided by the exponential of the maximum.
    """
    decay = -torch.exp(time_decay)
    zeros = torch.zeros_like(key[:, 0], dtype=torch.float32)
    sums = torch.stack([zeros, zeros, zeros - 1e38] if state is None else list(state))

    def step(sums: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        key, value = inputs
        numerator, denominator, maximum = sums[0], sums[1], sums[2]
        highest = torch.maximum(maximum, key + time_first)
        before, now = torch.exp(maximum - highest), torch.exp(key + time_first - highest)
        output = (before * numerator + now * value) / (before * denominator + now)
        highest = torch.maximum(maximum + decay, key)
        before, now = torch.exp(maximum + decay - highest), torch.exp(key - highest)
        return torch.stack([before * numerator + now * value, before * denominator + now, highest]), output

    final, outputs = final_state_and_outputs(step, sums, (key.float(), value.float()))
    return outputs.to(value.dtype), list(final) if return_state or state is not None else state
