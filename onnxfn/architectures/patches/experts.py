"""Mixtures of experts without a loop over experts: each token gathers the weights of its own, as `batched_mm`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def dbrx_outputs(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """For DbrxExperts.forward, of `[batch, length, size]`. Experts are rows of a matrix, which can be quantized."""
    rows = top_k_index[..., None] * self.ffn_hidden_size + torch.arange(self.ffn_hidden_size, device=top_k_index.device)
    states = hidden_states.reshape(-1, 1, self.hidden_size, 1)
    gate, up, down = (weight[rows] for weight in (self.mlp.w1, self.mlp.v1, self.mlp.w2))
    inner = self.mlp.activation_fn(gate @ states) * (up @ states)
    return _weighted(inner.transpose(-1, -2) @ down, top_k_weights).view(hidden_states.shape)


def longcat_outputs(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """For LongcatFlashExperts.forward, of `[tokens, size]`: the last `zero_expert_num` experts return their input."""
    states = hidden_states[:, None, :, None]
    is_identity = (top_k_index >= self.num_routed_experts)[..., None, None]
    index = top_k_index.clamp(max=self.num_routed_experts - 1)
    gate, up = (self.gate_up_proj[index] @ states).chunk(2, dim=-2)
    outputs = self.down_proj[index] @ (self.act_fn(gate) * up)
    return _weighted(outputs.where(~is_identity, states).transpose(-1, -2), top_k_weights).to(hidden_states.dtype)


def step3p7_outputs(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """For Step3p7Experts.forward, of `[tokens, size]`: an expert with the index `num_experts` stands for none."""
    states = hidden_states[:, None, :, None]
    weights = top_k_weights.where(top_k_index < self.num_experts, 0.0)
    index = top_k_index.clamp(max=self.num_experts - 1)
    inner = self._apply_gate((self.gate_up_proj[index] @ states).squeeze(-1))
    return _weighted((self.down_proj[index] @ inner[..., None]).transpose(-1, -2), weights).to(hidden_states.dtype)


def _weighted(outputs: Tensor, weights: Tensor) -> Tensor:
    """The sum of the outputs of a token's experts, `[tokens, chosen, 1, size]`, with weights: `[tokens, size]`."""
    return (outputs.squeeze(-2) * weights[..., None]).sum(dim=1)


def batched_mm_forward(
    self: Any,
    experts_implementation: str,  # one is traced, whichever is configured
    default: Callable[..., Any],
) -> Callable[..., Any]:
    """For ExpertsInterface.get_interface, whose default loops over the experts that the traced tokens chose."""
    implementation: Callable[..., Any] = self["batched_mm"]
    return implementation


def router_outputs(router: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For SwitchTransformersTop1Router.forward, which casts its own weights: one-hot expert, probability, logits."""
    weight, bias = router.classifier.weight, router.classifier.bias
    bias = None if bias is None else bias.to(router.dtype)
    logits = functional.linear(hidden_states.to(router.dtype), weight.to(router.dtype), bias)
    probabilities = logits.softmax(dim=-1).to(hidden_states.dtype)
    experts = functional.one_hot(probabilities.argmax(dim=-1), num_classes=router.num_experts)
    within_capacity = experts.cumsum(dim=-2) <= router.expert_capacity
    return experts * within_capacity, probabilities.amax(dim=-1, keepdim=True), logits


def expert_outputs(experts: Any, hidden_states: Tensor, selected_experts: Tensor, routing_weights: Tensor) -> Tensor:
    """For SwitchTransformersExperts.forward: every expert reads every token, `[tokens, size]`."""
    # `selected_experts` is `[tokens, 1, experts]`, all 0 if the expert is full; `routing_weights`, `[tokens, 1]`.
    outputs = sum(
        experts[f"expert_{index}"](hidden_states) * selected_experts[:, 0, index, None]
        for index in range(experts.num_experts)
    )
    return outputs * routing_weights
