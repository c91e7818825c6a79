"""Switch Transformers' experts without a loop over the experts that were hit.

The originals are in modeling_switch_transformers (transformers 5.23). A trace would record the experts that the traced
tokens chose.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional


def router_outputs(router: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For SwitchTransformersTop1Router.forward, which converts its own weights to another dtype in place.

    Returns the expert of each token (one-hot), its probability, and the logits. A token is assigned to no expert if
    `expert_capacity` earlier tokens of its text are assigned to the same expert.
    """
    logits = functional.linear(
        hidden_states.to(router.dtype),
        router.classifier.weight.to(router.dtype),
        None if router.classifier.bias is None else router.classifier.bias.to(router.dtype),
    )
    probabilities = logits.softmax(dim=-1).to(hidden_states.dtype)
    experts = functional.one_hot(probabilities.argmax(dim=-1), num_classes=router.num_experts)
    within_capacity = experts.cumsum(dim=-2) <= router.expert_capacity
    return experts * within_capacity, probabilities.amax(dim=-1, keepdim=True), logits


def expert_outputs(experts: Any, hidden_states: Tensor, selected_experts: Tensor, routing_weights: Tensor) -> Tensor:
    """For SwitchTransformersExperts.forward: the output of the selected expert for each token.

    `hidden_states` is `[tokens, size]`, `selected_experts` is `[tokens, 1, experts]` of 0 and 1 (all 0 if the expert is
    full), `routing_weights` is `[tokens, 1]`. Every expert reads every token. Outputs for tokens of other experts are
    multiplied by 0.
    """
    outputs = sum(
        experts[f"expert_{index}"](hidden_states) * selected_experts[:, 0, index, None]
        for index in range(experts.num_experts)
    )
    return outputs * routing_weights
