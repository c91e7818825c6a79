"""Nemotron's frames that see nothing: torch's attention gives them nothing, a softmax of infinities is not a number."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def attention(
    attention: Any,
    hidden_states: Tensor,
    position_embeddings: Tensor,
    attention_mask: Tensor,
    past_key_values: Any = None,  # noqa: ARG001 - a whole sound is heard at once
    **told: Any,
) -> tuple[Tensor, Any]:
    """Parakeet's attention, which hides with a great number, and what is projected of nothing where all is hidden.

    The mask is `[batch, 1, frames, frames]` (modeling_nemotron_asr_streaming, transformers 5.23).
    """
    import torch
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderAttention

    made, weights = ParakeetEncoderAttention.forward(
        attention, hidden_states, position_embeddings, attention_mask=attention_mask, **told
    )
    bias = attention.o_proj.bias
    nothing = torch.zeros((), dtype=made.dtype) if bias is None else bias
    return torch.where(attention_mask[:, 0].any(dim=-1, keepdim=True), made, nothing), weights
