"""xLSTM as one Scan over the tokens of a text (modeling_xlstm, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.recurrent import final_state_and_outputs


def matrix_memory(
    self: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    igate: Tensor,
    fgate: Tensor,
    c_initial: Tensor | None = None,
    n_initial: Tensor | None = None,
    m_initial: Tensor | None = None,
    return_last_states: bool | None = None,  # noqa: ARG001, FBT001 - layers read them in inference
    mode: str | None = None,  # noqa: ARG001 - inference
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """For xLSTMBackend.forward, which loops over chunks of the text, then over the tokens that are left.

    `query`, `key` and `value` are `[batch, heads, length, size]`, the gates `[batch, heads, length]`. The memory is
    `[batch, heads, key_size, value_size]`. Its normalizer is computed as one more column, for values that are 1.
    """
    values = torch.cat((value.float(), torch.ones_like(value[..., :1], dtype=torch.float32)), dim=-1)
    queries, keys = query.float() * key.shape[-1] ** -0.5, key.float()
    zeros = torch.zeros_like(keys[:, :, 0, :, None] * values[:, :, 0, None, :])
    has_state = c_initial is not None and n_initial is not None and m_initial is not None
    memory = torch.cat((c_initial, n_initial[..., None]), dim=-1) if has_state else zeros  # type: ignore[index]
    maximum = m_initial if has_state else zeros[:, :, 0, :1]
    # The maximum is one more row of the memory: a Scan of one state.
    state = torch.cat((memory.float(), maximum.float()[..., None].expand_as(zeros[:, :, :1])), dim=2)  # type: ignore[union-attr]

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        query, key, value, entry, retained = inputs
        memory, maximum = state[:, :, :-1], state[:, :, -1, :1]
        highest = torch.maximum(retained + maximum, entry)
        before, now = torch.exp(retained + maximum - highest), torch.exp(entry - highest)
        memory = before[..., None] * memory + now[..., None] * key[..., None] * value[:, :, None, :]
        read = (query[..., None] * memory).sum(-2)
        scale = torch.maximum(read[..., -1:].abs(), torch.exp(-highest)) + self.config.eps
        return torch.cat((memory, highest[..., None].expand_as(memory[:, :, :1])), dim=2), read[..., :-1] / scale

    gates = (igate.float()[..., None], torch.nn.functional.logsigmoid(fgate.float())[..., None])
    inputs = tuple(tensor.transpose(1, 2) for tensor in (queries, keys, values, *gates))
    final, outputs = final_state_and_outputs(step, state, inputs)
    states = (final[:, :, :-1, :-1], final[:, :, :-1, -1], final[:, :, -1, :1])
    return outputs.transpose(1, 2).to(query.dtype), states
