"""Switch Transformers' experts without a loop over those that were hit, which are those that the traced tokens chose.

The originals are in modeling_switch_transformers (transformers 5.23).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def router_outputs(router: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The expert of each token as 0 and 1, its probability, and the scores; the model converts its own weights here.

    A token that comes when its expert already has `expert_capacity` of its text goes to none.
    """
    from torch.nn import functional

    scores = functional.linear(
        hidden_states.to(router.dtype),
        router.classifier.weight.to(router.dtype),
        None if router.classifier.bias is None else router.classifier.bias.to(router.dtype),
    )
    shares = scores.softmax(dim=-1).to(hidden_states.dtype)
    expert = functional.one_hot(shares.argmax(dim=-1), num_classes=router.num_experts)
    there = expert.cumsum(dim=-2) <= router.expert_capacity
    return expert * there, shares.amax(dim=-1, keepdim=True), scores


def expert_outputs(experts: Any, hidden_states: Tensor, selected_experts: Tensor, routing_weights: Tensor) -> Tensor:
    """What its expert makes of each token.

    Takes `[tokens, size]`, which expert each token goes to as `[tokens, 1, experts]` of 0 and 1 (all 0 where the expert
    is full), and weights `[tokens, 1]`. Every expert reads every token, and what it was not asked for counts nothing.
    """
    made = sum(
        experts[f"expert_{index}"](hidden_states) * selected_experts[:, 0, index, None]
        for index in range(experts.num_experts)
    )
    return made * routing_weights
