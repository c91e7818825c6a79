"""Nemotron's streaming encoder, with an attention output for frames that attend to nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def attention(
    attention: Any,
    hidden_states: Tensor,
    position_embeddings: Tensor,
    attention_mask: Tensor | None = None,
    cache: Any = None,  # noqa: ARG001 - the export encodes all frames at once
    **options: Any,
) -> tuple[Tensor, Any]:
    """For NemotronAsrStreamingEncoderAttention.forward (modeling_nemotron_asr_streaming, transformers 5.23).

    The original masks with minus infinity. If a row is fully masked, torch's attention returns 0, but a softmax in ONNX
    returns NaN. Parakeet's attention masks with a large finite number. Here it is used, and a frame that attends to
    nothing gets the bias of the output projection. The mask is `[batch, 1, frames, frames]`.
    """
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderAttention

    output, weights = ParakeetEncoderAttention.forward(
        attention, hidden_states, position_embeddings, attention_mask=attention_mask, **options
    )
    if attention_mask is None:
        return output, weights
    bias = attention.o_proj.bias
    masked_output = torch.zeros((), dtype=output.dtype) if bias is None else bias
    return torch.where(attention_mask[:, 0].any(dim=-1, keepdim=True), output, masked_output), weights
