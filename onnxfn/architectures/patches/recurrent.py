"""Recurrent layers without a loop over the text: the same numbers in operations that torch.export can follow.

The originals are in transformers/cache_utils.py, models/qwen3_5/modeling_qwen3_5.py and those like it (5.23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

UNLIMITED = (0.0, float("inf"))
"""The limits of steps that are positive anyhow."""


def conv_state(
    self: Any, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
) -> Tensor:
    """For LinearAttentionLayer.update_conv_state, which fills up a short text under a condition on its length.

    No state is a state of zeros, as the convolution itself has zeros before the text.
    """
    import torch

    width = conv_kernel_size or self.conv_kernel_size[state_idx] or conv_states.shape[-1]
    past = self.conv_states[state_idx] if self.has_previous_state[state_idx] else _no_state(conv_states, width)
    every = torch.cat((past, conv_states), dim=-1)
    self.conv_states[state_idx] = every[..., -width:]
    self.has_previous_state[state_idx] = True
    return every


def recurrent_state(self: Any, recurrent_states: Tensor, state_idx: int = 0, **_: Any) -> Tensor:
    """For LinearAttentionLayer.update_recurrent_state, which writes into the state that it was given."""
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
    """For torch_chunk_gated_delta_rule, which loops over chunks of the text: here token by token, in one Scan.

    `batch length heads size` each, `g` and `beta` `batch length heads`; the state is `batch heads key_size value_size`.
    """
    import torch

    repeats = value.shape[2] // key.shape[2]
    query, key = (one.float().repeat_interleave(repeats, dim=2) for one in (query, key))
    if use_qk_l2norm_in_kernel:
        query, key = (one * torch.rsqrt((one * one).sum(-1, keepdim=True) + 1e-6) for one in (query, key))
    query = query * query.shape[-1] ** -0.5
    decay = g.float().exp().expand_as(key) if g.dim() == key.dim() else g.float().exp()[..., None].expand_as(key)
    state = (
        torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None, :]) if initial_state is None else initial_state
    )

    def step(kept: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        asked, place, told, faded, learnt = now
        kept = kept * faded[..., None]
        missing = (told - (kept * place[..., None]).sum(-2)) * learnt[..., None]
        kept = kept + place[..., None] * missing[..., None, :]
        return kept, (kept * asked[..., None]).sum(-2)

    state, answers = final_state_and_outputs(step, state.float(), (query, key, value.float(), decay, beta.float()))
    return answers.to(value.dtype), state


def mamba2_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803 - the original's signature
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    chunk_size: int = 0,  # noqa: ARG001
    D: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,  # noqa: FBT001, FBT002
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,  # noqa: FBT001, FBT002
    **_: Any,
) -> Any:
    """For mamba2_chunk_scan, which fills up the text to whole chunks: here token by token, in one Scan.

    `hidden_states` are `batch length heads size`, `dt` `batch length heads`, `B` and `C` `batch length groups width`;
    the state is `batch heads size width`.
    """
    import torch

    steps = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    steps = torch.nn.functional.softplus(steps) if dt_softplus else steps
    steps = _bounded(steps, dt_limit, initial_states).float()
    entries = hidden_states.float()
    repeats = entries.shape[2] // B.shape[2]
    written, read = (one.float().repeat_interleave(repeats, dim=2) for one in (B, C))
    state = initial_states
    if state is None:
        state = torch.zeros_like(entries[:, 0, :, :, None] * written[:, 0, :, None, :])

    def step(kept: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        faded, entry, place, asked = now
        kept = kept * faded[..., None, None] + entry[..., None] * place[..., None, :]
        return kept, (kept * asked[..., None, :]).sum(-1)

    along = ((A.float() * steps).exp(), entries * steps[..., None], written, read)
    last, answers = final_state_and_outputs(step, state.float(), along)
    answers = answers if D is None else answers + D[..., None] * entries
    return (answers, last) if return_final_states else answers


def lightning_attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: Any = None,  # noqa: ARG001 - the original's signature
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For MiniMaxLightningAttention.forward, which loops over blocks of a text, or over its tokens after a state."""
    import torch

    made = self.act_fn(self.qkv_proj(hidden_states))
    made = made if attention_mask is None else (made * attention_mask[:, :, None]).to(made.dtype)
    query, key, value = made.unflatten(-1, (self.num_attention_heads, -1)).float().chunk(3, dim=-1)
    fading = torch.exp(-self.slope_rate.float())[..., 0].expand_as(key)
    state = None if past_key_values is None else past_key_values.get_linear_cache(self.layer_idx)
    if state is None:
        state = torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None, :])

    def step(kept: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        asked, place, told, faded = now
        kept = kept * faded[..., None] + place[..., None] * told[..., None, :]
        return kept, (kept * asked[..., None]).sum(-2)

    last, answers = final_state_and_outputs(step, state.float(), (query, key, value, fading))
    if past_key_values is not None:
        past_key_values.set_linear_cache(self.layer_idx, last)
    answers = self.norm(answers.flatten(2).to(hidden_states.dtype))
    return self.out_proj(torch.sigmoid(self.output_gate(hidden_states)) * answers), last


def rglru_scan(
    self: Any,  # noqa: ARG001 - the original's signature
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For RecurrentGemmaRglru._rnn_scan, which loops over the text: `batch length width`, forgetting at `reset`."""
    import torch

    def step(kept: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        gate, entry = now
        kept = kept * gate + entry
        return kept, kept.clone()

    entries = hidden_states.float()
    state = torch.zeros_like(entries[:, 0]) if recurrent_states is None else recurrent_states
    last, answers = final_state_and_outputs(step, state, ((recurrent_gate * ~reset).float(), entries))
    return answers.to(hidden_states.dtype), last


def _bounded(steps: Tensor, limit: tuple[float, float], state: Tensor | None) -> Tensor:
    """Steps within their limits, but for a single token that goes on from a state.

    So it is in PyTorch, where mamba2_selective_state_update knows no limits. No state comes as a state of zeros, so
    whether there is one is asked of the numbers.
    """
    import torch

    if limit == UNLIMITED or state is None:
        return steps.clamp(*limit)
    several = torch.ones_like(steps[0, :, 0]).sum() > 1
    return torch.where(several | (state == 0).all(), steps.clamp(*limit), steps)


def _no_state(states: Tensor, width: int) -> Tensor:
    return states.new_zeros((*states.shape[:-1], width))


def final_state_and_outputs(
    step: Callable[..., Any], state: Tensor, along: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """A step after the other along axis 1 of each tensor: the last state, and the answers along axis 1."""
    from torch._higher_order_ops.scan import scan

    last, answers = scan(step, state, [one.transpose(0, 1) for one in along])
    return last, answers.transpose(0, 1)
