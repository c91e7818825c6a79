"""Mixers of the first Mamba and models derived from it, which continue from a state over any number of tokens.

In PyTorch only a single token continues from a state: a text of several tokens starts from a state of zeros
(modeling_mamba.MambaMixer.forward, transformers 5.23). Here one Scan computes both cases token by token.
"""

# ruff: noqa: N803, N806 - A, B, C and D are the letters of the Mamba papers

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.recurrent import final_state_and_outputs


def mixer(
    self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For MambaMixer.forward, FalconMambaMixer.forward and JambaMambaMixer.forward, which normalize dt, B and C."""
    x, gate = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2).chunk(2, dim=1)
    x = _masked(_convolved(self, x, cache).transpose(1, 2), attention_mask)
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    dt, B, C = torch.split(self.x_proj(x), sizes, dim=-1)
    dt, B, C = (_normalized(self, name, tensor) for name, tensor in (("dt", dt), ("b", B), ("c", C)))
    dt = self.dt_proj(dt).transpose(1, 2)
    parameters = (self.A_log, B.transpose(1, 2), C.transpose(1, 2), self.D)
    outputs = _selective_scan(self, x.transpose(1, 2), dt, *parameters, cache)
    outputs = outputs * torch.nn.functional.silu(gate)
    return self.out_proj(outputs.transpose(1, 2).to(hidden_states.dtype))


def multihead_mixer(
    self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For ZambaMambaMixer.forward, in which each head has its own scan."""
    projected = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2)
    x, gate = projected.unflatten(1, (-1, 2)).unbind(2)
    x = _masked(_convolved(self, x, cache).transpose(1, 2), attention_mask).transpose(1, 2)
    heads = x.unflatten(1, (self.n_mamba_heads, self.mamba_head_dim))
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    dt, B, C = torch.split(self.x_proj_weight @ heads, sizes, dim=-2)
    dt = self.dt_proj_weight @ dt + self.dt_proj_bias[..., None]
    outputs = _selective_scan(self, heads, dt, self.A_log, B, C, self.D, cache)
    outputs = outputs.flatten(1, 2) * torch.nn.functional.silu(gate)
    return self.out_proj(outputs.transpose(1, 2).to(hidden_states.dtype))


def _selective_scan(
    mixer: Any, x: Tensor, dt: Tensor, A_log: Tensor, B: Tensor, C: Tensor, D: Tensor, cache: Any
) -> Tensor:
    """The outputs of the selective scan. It starts from the state in the cache, and updates the cache.

    `x` and `dt` are `[batch, ..., width, length]`, `B` and `C` are `[batch, ..., state_size, length]`, `A_log` is
    `[..., width, state_size]`, `D` is `[..., width]`. The state is `[batch, ..., width, state_size]`.
    """

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        decay, dt_x, B, C = inputs
        state = state * decay + dt_x[..., None] * B[..., None, :]
        return state, (state * C[..., None, :]).sum(-1)

    dt = torch.nn.functional.softplus(dt).float()
    dt, dt_x, B, C = (tensor.float().movedim(-1, 1) for tensor in (dt, x * dt, B, C))
    decay = (dt[..., None] * -A_log.float().exp()).exp()
    state = None if cache is None else cache.get_recurrent_state(mixer.layer_idx)
    state = torch.zeros_like(decay[:, 0]) if state is None else state.float()
    final_state, outputs = final_state_and_outputs(step, state, (decay, dt_x, B, C))
    if cache is not None:
        cache.update_recurrent_state(final_state, mixer.layer_idx)
    return outputs.movedim(1, -1) + x * D.float()[..., None]


def _convolved(mixer: Any, x: Tensor, cache: Any) -> Tensor:
    """The causal convolution of `x` `[batch, width, length]`, which also sees the convolution state of the cache."""
    states = x
    if cache is not None:
        states = cache.update_conv_state(x, mixer.layer_idx, conv_kernel_size=mixer.conv_kernel_size)
    convolved: Tensor = mixer.act(mixer.conv1d(states)[..., : states.shape[-1]])
    return convolved[..., states.shape[-1] - x.shape[-1] :]


def _masked(tensor: Tensor, mask: Tensor | None) -> Tensor:
    return tensor if mask is None else (tensor * mask[:, :, None]).to(tensor.dtype)


def _normalized(mixer: Any, name: str, tensor: Tensor) -> Tensor:
    norm = getattr(mixer, f"{name}_layernorm", None)
    return tensor if norm is None else norm(tensor)
