"""Recurrent layers as one Scan over the tokens of a text; the originals loop in Python (transformers 5.23).

In PyTorch a text of several tokens starts from a state of zeros in the first Mamba. Here it continues from the state.
"""

# ruff: noqa: N803, N806 - A, B, C and D are the letters of the Mamba papers

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.torch_names import torch_name


def conv_state(
    self: Any, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
) -> Tensor:
    """For LinearAttentionLayer.update_conv_state, which branches on the length; a missing state is one of zeros."""
    width = conv_kernel_size or self.conv_kernel_size[state_idx] or conv_states.shape[-1]
    zeros = conv_states.new_zeros((*conv_states.shape[:-1], width))
    past = self.conv_states[state_idx] if self.has_previous_state[state_idx] else zeros
    states = torch.cat((past, conv_states), dim=-1)
    self.conv_states[state_idx] = states[..., -width:]
    self.has_previous_state[state_idx] = True
    return states


def mask_of_new_tokens(
    config: Any, inputs_embeds: Tensor, attention_mask: Tensor | None, cache: Any = None, **others: Any
) -> Tensor | None:
    """For create_recurrent_attention_mask, which takes the end of the mask: in a static cache it is behind the text."""
    from transformers.masking_utils import create_recurrent_attention_mask

    layers = getattr(cache or others.get("past_key_values"), "layers", ())
    written = next((layer.written for layer in layers if hasattr(layer, "written")), None)
    if written is not None and attention_mask is not None and attention_mask.ndim == 2:  # noqa: PLR2004
        indices = written + torch.arange(inputs_embeds.shape[1], device=attention_mask.device)
        attention_mask = attention_mask.index_select(1, indices)
    return create_recurrent_attention_mask(config, inputs_embeds, attention_mask, cache, **others)


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor,
    beta: Tensor,
    chunk_size: int = 64,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For torch_chunk_gated_delta_rule and chunk_kimi_delta_attention, which loop over chunks of the text.

    `query`, `key` and `value` are `[batch, length, heads, size]`, `beta` is `[batch, length, heads]`, and `g` is
    `[batch, length, heads]` or `[batch, length, heads, key_size]`. The state is `[batch, heads, key_size, value_size]`.
    """
    query, key = query.float(), key.float()
    if use_qk_l2norm_in_kernel:
        query, key = (tensor * torch.rsqrt((tensor * tensor).sum(-1, keepdim=True) + 1e-6) for tensor in (query, key))
    query = query * query.shape[-1] ** -0.5
    state, outputs = delta_recurrence(query, key, value.float(), g.float(), beta.float(), initial_state)
    return outputs.to(value.dtype), state


def mamba2_scan(
    hidden_states: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    chunk_size: int = 0,
    D: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
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
    B_heads, C_heads = (of_heads(tensor.float(), x.shape[2]) for tensor in (B, C))
    log_decay = (A.float() * steps)[..., None, None]
    final_state, outputs = linear_recurrence(log_decay, x * steps[..., None], B_heads, C_heads, initial_states)
    outputs = outputs if D is None else outputs + D[..., None] * x
    return (outputs, final_state) if return_final_states else outputs


def lightning_attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: Any = None,
    attention_mask: Tensor | None = None,
    cache: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """For MiniMaxLightningAttention.forward, which loops over blocks of a text, or over tokens if there is a state."""
    qkv = self.act_fn(self.qkv_proj(hidden_states))
    qkv = qkv if attention_mask is None else (qkv * attention_mask[:, :, None]).to(qkv.dtype)
    query, key, value = qkv.unflatten(-1, (self.num_attention_heads, -1)).float().chunk(3, dim=-1)
    state = None if cache is None else cache.get_linear_cache(self.layer_idx)
    state = None if state is None else state.transpose(-1, -2)
    final_state, outputs = linear_recurrence(-self.slope_rate.float(), value, key, query, state)
    final_state = final_state.transpose(-1, -2)
    if cache is not None:
        cache.set_linear_cache(self.layer_idx, final_state)
    outputs = self.norm(outputs.flatten(2).to(hidden_states.dtype))
    return self.out_proj(torch.sigmoid(self.output_gate(hidden_states)) * outputs), final_state


def rglru_scan(
    self: Any,
    hidden_states: Tensor,
    recurrent_gate: Tensor,
    reset: Tensor,
    recurrent_states: Tensor | None,
    acc_dtype: Any = None,  # the states of a graph are float32
) -> tuple[Tensor, Tensor]:
    """For RecurrentGemmaRglru._rnn_scan, of `[batch, length, width]`. The state is set to 0 where `reset` is true."""

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        gate, x = inputs
        state = state * gate + x
        return state, state.clone()

    hidden = hidden_states.float()
    state = torch.zeros_like(hidden[:, 0]) if recurrent_states is None else recurrent_states
    final_state, outputs = final_state_and_outputs(step, state, ((recurrent_gate * ~reset).float(), hidden))
    return outputs.to(hidden_states.dtype), final_state


def of_heads(tensor: Tensor, heads: int) -> Tensor:
    """A tensor `[batch, length, groups, size]` with each group repeated for its heads."""
    groups = tensor.shape[2]
    places = torch.arange(heads, device=tensor.device) // (heads // groups)
    return tensor if groups == heads else tensor.index_select(2, places)


def _limited(dt: Tensor, dt_limit: tuple[float, float], state: Tensor | None) -> Tensor:
    """`dt` within its limits, except for a single token that continues from a state: PyTorch has no limits there.

    In the graph a missing state is a state of zeros, so a state of zeros counts as missing.
    """
    if dt_limit == (0.0, float("inf")) or state is None:  # `dt` is positive after softplus
        return dt.clamp(*dt_limit)
    several_tokens = torch.ones_like(dt[0, :, 0]).sum() > 1
    return torch.where(several_tokens | (state == 0).all(), dt.clamp(*dt_limit), dt)


def final_state_and_outputs(
    step: Callable[..., Any], state: Tensor, inputs: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """The final state and the outputs of a recurrence along axis 1, which torch exports as one Scan.

    `step`: `(state, inputs of one token) -> (next state, output of that token)`.
    """
    final_state, outputs = torch_name("scan")(step, state, [tensor.transpose(0, 1) for tensor in inputs])
    return final_state, outputs.transpose(0, 1)


def delta_recurrence(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The final state and the outputs of the gated delta rule, of tensors in float32 with the sizes of `delta_rule`.

    A query and a key may be those of several heads of the values.
    """
    query, key = (of_heads(tensor, value.shape[2]) for tensor in (query, key))

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, decay, beta = inputs
        state = state * decay[..., None]
        delta = (v - (state * k[..., None]).sum(-2)) * beta[..., None]
        state = state + k[..., None] * delta[..., None, :]
        return state, (state * q[..., None]).sum(-2)

    decay = log_decay.exp()
    decay = (decay if decay.dim() == key.dim() else decay[..., None]).expand_as(key)
    before = torch.zeros_like(key[:, 0, :, :, None] * value[:, 0, :, None, :]) if state is None else state
    return final_state_and_outputs(step, before.float(), (query, key, value, decay, beta))


def linear_recurrence(
    log_decay: Tensor, rows: Tensor, columns: Tensor, reader: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The final state and the outputs of a recurrence: the state decays, and each token adds a product to it.

    The logarithm of the decay is `[batch, length, ..., rows, columns]`, where a size may be 1, or has no batch and no
    length. The factors of the product are `rows`, `[batch, length, ..., rows]`, and `columns`. An output is a sum over
    the columns of the state, with the weights `reader`. The initial state is `[batch, ..., rows, columns]`, or zeros.
    """

    def step(state: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        decay, row, column, reader = inputs
        state = state * decay + row[..., None] * column[..., None, :]
        return state, (state * reader[..., None, :]).sum(-1)

    decay = log_decay.exp()
    decay = decay if log_decay.dim() > rows.dim() else decay.expand(*rows.shape[:2], *decay.shape)
    before = torch.zeros_like(rows[:, 0, ..., None] * columns[:, 0, ..., None, :]) if state is None else state
    return final_state_and_outputs(step, before.float(), (decay, rows, columns, reader))


def mixer(
    self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For MambaMixer.forward, FalconMambaMixer.forward and JambaMambaMixer.forward, which normalize dt, B and C."""
    x, gate = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2).chunk(2, dim=1)
    x = _masked(_convolved(self, x, cache).transpose(1, 2), attention_mask)
    sizes = [self.time_step_rank, self.ssm_state_size, self.ssm_state_size]
    norms = [getattr(self, f"{name}_layernorm", None) or (lambda tensor: tensor) for name in ("dt", "b", "c")]
    parts = torch.split(self.x_proj(x), sizes, dim=-1)
    dt, B, C = (norm(part) for norm, part in zip(norms, parts, strict=True))
    dt = self.dt_proj(dt).transpose(1, 2)
    parameters = (self.A_log, B.transpose(1, 2), C.transpose(1, 2), self.D)
    outputs = _selective_scan(self, x.transpose(1, 2), dt, *parameters, cache)
    outputs = outputs * torch.nn.functional.silu(gate)
    return self.out_proj(outputs.transpose(1, 2).to(hidden_states.dtype))


def multihead_mixer(
    self: Any, hidden_states: Tensor, cache: Any = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    """For ZambaMambaMixer.forward, in which each head has its own scan."""
    x, gate = self.in_proj(_masked(hidden_states, attention_mask)).transpose(1, 2).unflatten(1, (-1, 2)).unbind(2)
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
    dt = torch.nn.functional.softplus(dt).float()
    dt, dt_x, B, C = (tensor.float().movedim(-1, 1) for tensor in (dt, x * dt, B, C))
    log_decay = dt[..., None] * -A_log.float().exp()
    state = None if cache is None else cache.get_recurrent_state(mixer.layer_idx)
    final_state, outputs = linear_recurrence(log_decay, dt_x, B, C, state)
    if cache is not None:
        cache.update_recurrent_state(final_state, mixer.layer_idx)
    return outputs.movedim(1, -1) + x * D.float()[..., None]


def _convolved(mixer: Any, x: Tensor, cache: Any) -> Tensor:
    """The causal convolution of `x` `[batch, width, length]`, which also sees the convolution state of the cache."""
    states = x
    if cache is not None:
        states = cache.update_conv_state(x, mixer.layer_idx, conv_kernel_size=mixer.conv_kernel_size)
    convolved: Tensor = mixer.act(causal_convolution(states, mixer.conv1d.weight.squeeze(1), mixer.conv1d.bias))
    return convolved[..., convolved.shape[-1] - x.shape[-1] :]


def causal_convolution(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The sums of each `[batch, width, length]` element and those before it, with the weights `[width, kernel]`."""
    padding = weight.shape[-1] - 1
    convolved = torch.nn.functional.conv1d(states, weight[:, None], bias, padding=padding, groups=weight.shape[0])
    return convolved[..., : states.shape[-1]]


def _masked(tensor: Tensor, mask: Tensor | None) -> Tensor:
    return tensor if mask is None else (tensor * mask[:, :, None]).to(tensor.dtype)


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
    return_last_states: bool | None = None,  # layers read them in inference
    mode: str | None = None,  # inference
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """For xLSTMBackend.forward. The original loops over chunks of the text, then over the remaining tokens.

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


def linear_attention(
    time_decay: Tensor, time_first: Tensor, key: Tensor, value: Tensor, state: Any = None, return_state: bool = False
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
