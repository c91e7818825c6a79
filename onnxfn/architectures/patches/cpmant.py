"""The attention mask of CPM-Ant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def attention_mask(self: Any, input_ids: Tensor, span: Tensor, context: Tensor, length: Tensor) -> Tensor:
    """For CpmAntModel._prepare_attention_mask in transformers.models.cpmant.modeling_cpmant (5.23).

    The original makes a Python list of all positions, which fixes the length of the text. True where a query, axis 1,
    attends to a key, axis 2. The tokens of the prompt come first; after them, padding is at the left.
    """
    index = torch.arange(input_ids.shape[1], device=input_ids.device)
    is_earlier = index[None, :] <= index[:, None]
    has_context = context[:, None, :].bool() | (context[:, :, None].logical_not() & is_earlier)
    attends = has_context & (span[:, None, :] == span[:, :, None])
    is_prompt = index < self.prompt_length
    is_token = is_prompt[None] | (input_ids.shape[1] - 1 - index[None] < length[:, None])
    return is_token[:, :, None] & is_token[:, None, :] & attends
