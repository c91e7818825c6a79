"""DeepStack features of all tokens, zeros for those of a text, added to the states after a layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def added_features(_: Any, hidden_states: Tensor, visual_pos_masks: Tensor, visual_embeds: Tensor) -> Tensor:  # noqa: ARG001
    """For _deepstack_process, which selects the tokens of images by a mask; a graph gets features for all tokens."""
    return hidden_states + visual_embeds.reshape(hidden_states.shape)
