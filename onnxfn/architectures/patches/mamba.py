"""Mixers of the first Mamba and those like it, which go on from a state over any number of tokens.

In PyTorch only a single token goes on from a state: a text of several starts from nothing, whatever it is given
(modeling_mamba.MambaMixer.forward, transformers 5.23). Here one Scan does both, as if token by token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnxfn.architectures.patches.recurrent import final_state_and_outputs

if TYPE_CHECKING:
    from torch import Tensor


def mixer(
    self: Any, hidden_states: Tensor, cache_params: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For MambaMixer.forward; Falcon's and Jamba's also norm steps, places and questions."""
    import torch

    entries, gate = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2).chunk(2, dim=1)
    entries = _masked(_convolved(self, entries, cache_params).transpose(1, 2), attention_mask)
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    steps, places, questions = torch.split(self.x_proj(entries), sizes, dim=-1)
    steps, places, questions = (
        _normed(self, name, one) for name, one in (("dt", steps), ("b", places), ("c", questions))
    )
    steps = self.dt_proj(steps).transpose(1, 2)
    told = (self.A_log, places.transpose(1, 2), questions.transpose(1, 2), self.D)
    answers = _selected(self, entries.transpose(1, 2), steps, *told, cache_params)
    answers = answers * torch.nn.functional.silu(gate)
    return self.out_proj(answers.transpose(1, 2).to(hidden_states.dtype))


def multihead_mixer(
    self: Any, hidden_states: Tensor, cache_params: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For ZambaMambaMixer.forward: each head has a scan of its own."""
    import torch

    projected = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2)
    entries, gate = projected.unflatten(1, (-1, 2)).unbind(2)
    entries = _masked(_convolved(self, entries, cache_params).transpose(1, 2), attention_mask).transpose(1, 2)
    heads = entries.unflatten(1, (self.n_mamba_heads, self.mamba_head_dim))
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    steps, places, questions = torch.split(self.x_proj_weight @ heads, sizes, dim=-2)
    steps = self.dt_proj_weight @ steps + self.dt_proj_bias[..., None]
    answers = _selected(self, heads, steps, self.A_log, places, questions, self.D, cache_params)
    answers = answers.flatten(1, 2) * torch.nn.functional.silu(gate)
    return self.out_proj(answers.transpose(1, 2).to(hidden_states.dtype))


def _selected(
    mixer: Any, told: Tensor, steps: Tensor, rates: Tensor, places: Tensor, questions: Tensor, kept: Tensor, cache: Any
) -> Tensor:
    """The answers, token by token, from the state that the cache holds to the one that it holds afterwards.

    `told` and `steps` are `batch ... width length`, `places` and `questions` `batch ... size length`, `rates`
    `... width size`; the state is `batch ... width size`.
    """
    import torch

    def step(state: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        faded, entry, place, asked = now
        state = state * faded + entry[..., None] * place[..., None, :]
        return state, (state * asked[..., None, :]).sum(-1)

    steps = torch.nn.functional.softplus(steps).float()
    steps, entries, places, questions = (one.float().movedim(-1, 1) for one in (steps, told * steps, places, questions))
    decays = (steps[..., None] * -rates.float().exp()).exp()
    state = None if cache is None else cache.get_recurrent_state(mixer.layer_idx)
    state = torch.zeros_like(decays[:, 0]) if state is None else state.float()
    last, answers = final_state_and_outputs(step, state, (decays, entries, places, questions))
    if cache is not None:
        cache.update_recurrent_state(last, mixer.layer_idx)
    return answers.movedim(1, -1) + told * kept.float()[..., None]


def _convolved(mixer: Any, entries: Tensor, cache: Any) -> Tensor:
    """`batch width length`, each with those before it, those of the cache too."""
    every = entries
    if cache is not None:
        every = cache.update_conv_state(entries, mixer.layer_idx, conv_kernel_size=mixer.conv_kernel_size)
    made: Tensor = mixer.act(mixer.conv1d(every)[..., : every.shape[-1]])
    return made[..., every.shape[-1] - entries.shape[-1] :]


def _masked(tensor: Tensor, mask: Tensor | None) -> Tensor:
    return tensor if mask is None else (tensor * mask[:, :, None]).to(tensor.dtype)


def _normed(mixer: Any, name: str, tensor: Tensor) -> Tensor:
    norm = getattr(mixer, f"{name}_layernorm", None)
    return tensor if norm is None else norm(tensor)
