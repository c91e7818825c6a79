"""Recurrent layers as one Scan over the tokens of a text. The originals loop in Python. The results are the same.

The originals are in transformers.cache_utils, modeling_qwen3_5, modeling_mamba2, modeling_minimax,
modeling_recurrent_gemma and the models derived from them (5.23). Variables have the letters of the originals.
"""

# ruff: noqa: N803, N806 - A, B, C and D are the letters of the Mamba papers

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.torch_names import torch_name

UNLIMITED = (0.0, float("inf"))
"""The limits of `dt` that change nothing, as `dt` is positive after softplus."""


def conv_state(
    self: Any, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
) -> Tensor:
    """For LinearAttentionLayer.update_conv_state, which branches on the length to pad a short text.

    A missing state is a state of zeros, as the convolution also pads with zeros before the text.
    """
    width = conv_kernel_size or self.conv_kernel_size[state_idx] or conv_states.shape[-1]
    past = self.conv_states[state_idx] if self.has_previous_state[state_idx] else _zero_state(conv_states, width)
    states = torch.cat((past, conv_states), dim=-1)
    self.conv_states[state_idx] = states[..., -width:]
    self.has_previous_state[state_idx] = True
    return states


def recurrent_state(self: Any, recurrent_states: Tensor, state_idx: int = 0, **_: Any) -> Tensor:
    """For LinearAttentionLayer.update_recurrent_state, which writes into the state that is an input of the graph."""
    self.recurrent_states[state_idx] = recurrent_states
    return recurrent_states


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,  # noqa: ARG001 - the original's signature
    initial_state: Tensor | None = None,
    output_final_state: bool = False,  # noqa: ARG001, FBT001, FBT002
    use_qk_l2norm_in_kernel: bool = False,  # noqa: FBT001, FBT002
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For torch_chunk_gated_delta_rule and chunk_kimi_delta_attention, which loop over chunks of the text.

    `query`, `key` and `value` are `[batch, length, heads, size]`, `beta` is `[batch, length, heads]`, and `g` is
    `[batch, length, heads]` or `[batch, length, heads, key_size]`. The state is `[batch, heads, key_size, value_size]`.
    """
    repeats = value.shape[2] // key.shape[2]
    query, key = (tensor.float().repeat_interleave(repeats, dim=2) for tensor in (query, key))
    if use_qk_l2norm_in_kernel:
        query, key = (tensor * torch.rsqrt((tensor * tensor).sum(-1, keepdim=True) + 1e-6) for tensor in (query, key))
    query = query * query.shape[-1] ** -0.5
    decay = g.float().exp().expand_as(key) if g.dim() == key.dim() else g.float().exp()[..., None].expand_as(key)
    state = (
        torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None, :]) if initial_state is None else initial_state
    )

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, decay, beta = inputs
        state = state * decay[..., None]
        delta = (v - (state * k[..., None]).sum(-2)) * beta[..., None]
        state = state + k[..., None] * delta[..., None, :]
        return state, (state * q[..., None]).sum(-2)

    state, outputs = final_state_and_outputs(step, state.float(), (query, key, value.float(), decay, beta.float()))
    return outputs.to(value.dtype), state


def mamba2_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int = 0,  # noqa: ARG001 - the original's signature
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,  # noqa: FBT001, FBT002
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,  # noqa: FBT001, FBT002
    **_: Any,
) -> Any:
    """For mamba2_chunk_scan, which pads the text to full chunks.

    `hidden_states` is `[batch, length, heads, size]`, `dt` is `[batch, length, heads]`, `B` and `C` are
    `[batch, length, groups, state_size]`. The state is `[batch, heads, size, state_size]`.
    """
    steps = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    steps = torch.nn.functional.softplus(steps) if dt_softplus else steps
    steps = _limited(steps, dt_limit, initial_states).float()
    x = hidden_states.float()
    repeats = x.shape[2] // B.shape[2]
    B_heads, C_heads = (tensor.float().repeat_interleave(repeats, dim=2) for tensor in (B, C))
    state = initial_states
    if state is None:
        state = torch.zeros_like(x[:, 0, :, :, None] * B_heads[:, 0, :, None, :])

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        decay, dt_x, B, C = inputs
        state = state * decay[..., None, None] + dt_x[..., None] * B[..., None, :]
        return state, (state * C[..., None, :]).sum(-1)

    inputs = ((A.float() * steps).exp(), x * steps[..., None], B_heads, C_heads)
    final_state, outputs = final_state_and_outputs(step, state.float(), inputs)
    outputs = outputs if D is None else outputs + D[..., None] * x
    return (outputs, final_state) if return_final_states else outputs


def lightning_attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: Any = None,  # noqa: ARG001 - the original's signature
    attention_mask: Tensor | None = None,
    cache: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For MiniMaxLightningAttention.forward, which loops over blocks of a text, or over tokens if there is a state."""
    qkv = self.act_fn(self.qkv_proj(hidden_states))
    qkv = qkv if attention_mask is None else (qkv * attention_mask[:, :, None]).to(qkv.dtype)
    query, key, value = qkv.unflatten(-1, (self.num_attention_heads, -1)).float().chunk(3, dim=-1)
    decay = torch.exp(-self.slope_rate.float())[..., 0].expand_as(key)
    state = None if cache is None else cache.get_linear_cache(self.layer_idx)
    if state is None:
        state = torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None, :])

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, decay = inputs
        state = state * decay[..., None] + k[..., None] * v[..., None, :]
        return state, (state * q[..., None]).sum(-2)

    final_state, outputs = final_state_and_outputs(step, state.float(), (query, key, value, decay))
    if cache is not None:
        cache.set_linear_cache(self.layer_idx, final_state)
    outputs = self.norm(outputs.flatten(2).to(hidden_states.dtype))
    return self.out_proj(torch.sigmoid(self.output_gate(hidden_states)) * outputs), final_state


def rglru_scan(
    self: Any,  # noqa: ARG001 - the original's signature
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None,
    acc_dtype: Any = None,  # noqa: ARG001 - the states of a graph are float32
) -> tuple[Tensor, Tensor]:
    """For RecurrentGemmaRglru._rnn_scan, which loops over the text.

    `hidden_states` and `recurrent_gate` are `[batch, length, width]`. The state is set to 0 where `reset` is true.
    """

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        gate, x = inputs
        state = state * gate + x
        return state, state.clone()

    hidden = hidden_states.float()
    state = torch.zeros_like(hidden[:, 0]) if recurrent_states is None else recurrent_states
    final_state, outputs = final_state_and_outputs(step, state, ((recurrent_gate * ~reset).float(), hidden))
    return outputs.to(hidden_states.dtype), final_state


def _limited(dt: Tensor, dt_limit: tuple[float, float], state: Tensor | None) -> Tensor:
    """`dt` within its limits, except for a single token that continues from a state.

    PyTorch computes that token by mamba2_selective_state_update, which has no limits. In the graph a missing state is
    a state of zeros, so a state of zeros counts as missing.
    """
    if dt_limit == UNLIMITED or state is None:
        return dt.clamp(*dt_limit)
    several_tokens = torch.ones_like(dt[0, :, 0]).sum() > 1
    return torch.where(several_tokens | (state == 0).all(), dt.clamp(*dt_limit), dt)


def _zero_state(states: Tensor, width: int) -> Tensor:
    return states.new_zeros((*states.shape[:-1], width))


def final_state_and_outputs(
    step: Callable[..., Any], state: Tensor, inputs: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """The final state and the outputs of a recurrence along axis 1, which torch exports as one Scan.

    Args:
        step: `(state, inputs of one token) -> (next state, output of that token)`.
        state: The initial state.
        inputs: Tensors with the length at axis 1.

    Returns:
        The final state, and the outputs with the length at axis 1.
    """
    final_state, outputs = torch_name("scan")(step, state, [tensor.transpose(0, 1) for tensor in inputs])
    return final_state, outputs.transpose(0, 1)
