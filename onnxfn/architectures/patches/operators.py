"""Linear attention, causal convolutions and experts as one operator of `com.microsoft` each.

ONNX Runtime 1.32 has kernels for these alone. Their definitions are the standard operators of opset 27, if there are.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.patches import recurrent
from onnxfn.architectures.patches.recurrent import causal_convolution as plain_convolution
from onnxfn.architectures.patches.recurrent import linear_recurrence as scanned_recurrence
from onnxfn.architectures.private.torch_names import torch_name

CONVOLUTION, OPSET = "CausalConvWithState", 27
"""A standard operator, and the opset that brings it."""


def conv_state(
    self: Any, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
) -> Tensor:
    """What `recurrent.conv_state` returns, which also knows its parts, for a convolution that updates the state."""
    past = self.conv_states[state_idx] if self.has_previous_state[state_idx] else None
    states: Any = recurrent.conv_state(self, conv_states, state_idx, conv_kernel_size)
    states.parts = (past, conv_states, self.conv_states, state_idx)
    return states


def causal_convolution(
    hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None, **_: Any
) -> Tensor:
    """For causal_conv1d_fn: a convolution in which an element sees those before it, and the state of the cache.

    The kernel has no float16, and takes three times as long for a text as the definition of the standard operator.
    It computes SiLU for one element at a time: ten times the time of the convolution.
    """
    from transformers.activations import ACT2FN

    past, new, states, index = getattr(hidden_states, "parts", (None, hidden_states, None, 0))
    if {new.dtype, weight.dtype} != {torch.float32}:
        output = plain_convolution(hidden_states.to(weight.dtype), weight, bias).to(hidden_states.dtype)
    else:
        # The state of the operator is shorter by one than its weights, that of the cache as long as the model's.
        width = weight.shape[-1] - 1 if states is None else states[index].shape[-1]
        weights = functional.pad(weight[:, None], (width + 1 - weight.shape[-1], 0))
        inputs = [each for each in (new, weights, bias, past) if each is not None]

        def convolution(name: str, *inputs: Tensor) -> Sequence[Tensor]:
            """The output and the state, by an operator of a name."""
            new, weights, *others = inputs
            before = others.pop() if past is not None else None
            shapes = (new.shape, (*new.shape[:2], width))
            return _operator(name, (new, weights, *(others or [None]), before), shapes)

        of_token, of_text = (partial(convolution, name) for name in ("com.microsoft::" + CONVOLUTION, CONVOLUTION))
        output, state = of_text(*inputs) if past is None else _by_length(new.shape[2], of_token, of_text, inputs)
        if states is not None:
            states[index] = state
    return output if activation is None else ACT2FN[activation](output)


def heads_in_order(self: Any, mixed_qkvz: Tensor, mixed_ba: Tensor) -> tuple[Tensor, ...]:
    """For Qwen3NextGatedDeltaNet.fix_query_key_value_ordering: the parts of all groups of heads, gathered in order."""
    groups, repeats = self.num_k_heads, self.num_v_heads // self.num_k_heads
    width = gcd(self.head_k_dim, self.head_v_dim)
    keys, values = self.head_k_dim // width, self.head_v_dim // width * repeats

    def gathered(tensor: Tensor, widths: Sequence[int], *parts: int) -> Tensor:
        columns = np.split(np.arange(groups * sum(widths)).reshape(groups, -1), np.cumsum(widths)[:-1], axis=1)
        indices = torch.tensor(np.concatenate([columns[part].ravel() for part in parts]), device=tensor.device)
        return tensor.index_select(2, indices).flatten(2)

    blocks, widths = mixed_qkvz.unflatten(2, (-1, width)), [keys, keys, values, values]
    query, key, value = gathered(blocks, widths, 0, 1, 2).split([self.key_dim, self.key_dim, self.value_dim], 2)
    z = gathered(blocks, widths, 3).unflatten(2, (-1, self.head_v_dim))
    return query, key, value, z, *(gathered(mixed_ba, [repeats, repeats], part) for part in (0, 1))


def delta_recurrence(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """For `recurrent.delta_recurrence`. The operator reads queries and keys of several heads if it has a state."""
    if state is None:
        query, key = (recurrent.of_heads(tensor, value.shape[2]) for tensor in (query, key))
    flat = (tensor.flatten(2) for tensor in (query, key, value, log_decay))
    final_state, outputs = _linear_attention(value.shape[2], state, *flat, beta, groups=query.shape[2])
    return final_state, outputs.unflatten(2, value.shape[2:])


def linear_recurrence(
    log_decay: Tensor, rows: Tensor, columns: Tensor, reader: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """For `recurrent.linear_recurrence`, where a head has one decay; its keys are the columns, its values the rows."""
    if tuple(log_decay.shape[-2:]) != (1, 1) or rows.dim() != 4:  # noqa: PLR2004 - batch, length, heads, size
        return scanned_recurrence(log_decay, rows, columns, reader, state)
    heads = rows.shape[2]

    def of_text(state: Any, *inputs: Tensor) -> Any:
        final_state, outputs = _linear_attention(heads, None if state is None else state.mT, *inputs)
        return final_state.mT.contiguous(), outputs

    def of_token(state: Tensor, query: Tensor, key: Tensor, value: Tensor, decay: Tensor) -> Any:
        # With keys and values exchanged no state is transposed, but the outputs of the operator are others.
        final_state, _ = _linear_attention(heads, state, value, value, key, decay)
        outputs = final_state @ query.unflatten(2, (heads, -1)).permute(0, 2, 3, 1)
        return final_state, outputs.permute(0, 3, 1, 2).flatten(2).contiguous()

    decay = log_decay.flatten(-3).expand(rows.shape[:3])
    inputs = (state, *(each.flatten(2) for each in (reader, columns, rows)), decay)
    either = of_text(*inputs) if state is None else _by_length(decay.shape[1], of_token, of_text, inputs)
    return either[0], either[1].unflatten(2, rows.shape[2:])


def _by_length(length: int, of_token: Any, of_text: Any, inputs: Sequence[Any]) -> Any:
    """The result of one of two functions, which the graph chooses by the length: the first is for one token."""
    return torch_name("cond")(torch.ones(length).sum() == 1, of_token, of_text, tuple(inputs))


def _linear_attention(heads: int, state: Tensor | None, *inputs: Tensor, groups: int | None = None) -> Sequence[Tensor]:
    """The final state and the outputs, of queries, keys and values in one axis, logarithms of decays, maybe betas.

    `heads`: those of the values. `groups`: the heads of queries and keys; None for those of the values.
    """
    _, key, value, *gates = inputs
    shapes = (value.shape, (key.shape[0], heads, key.shape[2] // (groups or heads), value.shape[2] // heads))
    own = (*inputs[:3], None if state is None else state.float(), *gates)
    numbers = {"q_num_heads": groups or heads, "kv_num_heads": heads, "scale": 1.0}
    rule = "gated" if len(gates) == 1 else "gated_delta"
    return _operator("com.microsoft::LinearAttention", own, shapes, update_rule=rule, **numbers)[::-1]


def experts_forward(self: Any, experts_implementation: str, default: Callable[..., Any]) -> Callable[..., Any]:
    """For ExpertsInterface.get_interface: the forward of experts as one operator, where they have its form."""

    def outputs(experts: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        more = (experts.has_bias, experts.is_transposed, experts.has_post_expert_norm)
        if any(more) or states.dtype != torch.float32 or not (experts.has_gate and _is_swiglu(experts)):
            others: Tensor = self["batched_mm"](experts, states, chosen, weights)
            return others
        # The operator takes the softmax of scores: these give the weights, but for their sum.
        scores = torch.zeros(states.shape[0], len(experts.down_proj)).scatter(1, chosen, weights.float()).log()
        in_turn = experts.gate_up_proj.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)
        gate = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.0, "activation_beta": 0.0}
        inputs, own = (states, scores, in_turn, None, experts.down_proj), {"normalize_routing_weights": 1, **gate}
        (result,) = _operator("com.microsoft::MoE", inputs, (states.shape,), k=chosen.shape[1], **own)
        return result * weights.sum(1, keepdim=True)

    return outputs


def _is_swiglu(experts: Any) -> bool:
    """Whether the gate of experts is SwiGLU of two halves, without limits: it has its values."""
    with torch_name("without_dispatch")():
        numbers = torch.linspace(-12, 12, 49) ** 5
        gate, up = torch.cartesian_prod(numbers, numbers).mT
        computed = experts._apply_gate(torch.cat([gate, up])[None])[0]
        return bool(torch.allclose(computed, functional.silu(gate) * up))


def _operator(name: str, inputs: Sequence[Tensor | None], shapes: Sequence[Any], **attributes: Any) -> Sequence[Tensor]:
    """The outputs in a trace of an operator of `com.microsoft`, or of a standard one, without a prefix."""
    dtypes, version = [torch.float32] * len(shapes), 1 if "::" in name else OPSET
    symbolic: Any = torch.onnx.ops.symbolic_multi_out
    outputs: Sequence[Tensor] = symbolic(name, inputs, attributes, dtypes=dtypes, shapes=shapes, version=version)
    return outputs
