"""BART and models derived from it, without branches on tensor values (modeling_bart, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def sequence_classifier_output(
    model: Any, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **arguments: Any
) -> Any:
    """For BartForSequenceClassification.forward, which selects the last end-of-sequence token with a boolean mask.

    The number of selected rows then depends on the token ids. Here the token is gathered by its index.
    """
    arguments["use_cache"] = False
    hidden_states = model.model(input_ids, attention_mask=attention_mask, **arguments)[0]
    return classified_end(model, input_ids, hidden_states)


def t5_sequence_classifier_output(
    model: Any, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **arguments: Any
) -> Any:
    """For T5ForSequenceClassification.forward (modeling_t5), which selects the last end-of-sequence token as BART's."""
    arguments |= {"use_cache": False, "decoder_input_ids": model._shift_right(input_ids)}
    hidden_states = model.transformer(input_ids, attention_mask=attention_mask, **arguments)[0]
    return classified_end(model, input_ids, hidden_states)


def classified_end(model: Any, input_ids: Tensor | None, hidden_states: Tensor) -> Any:
    """The classes of each text, by the state of its last end-of-sequence token."""
    if input_ids is None:
        raise NotImplementedError("the end of a text is found by its token ids, which embeddings do not have")
    from transformers.modeling_outputs import SequenceClassifierOutput

    indices = torch.arange(input_ids.shape[1], device=input_ids.device)
    last_eos = torch.where(input_ids == model.config.eos_token_id, indices, 0).amax(dim=1)
    pooled = hidden_states.gather(1, last_eos[:, None, None].expand(-1, 1, hidden_states.shape[-1]))[:, 0]
    return SequenceClassifierOutput(logits=model.classification_head(pooled))


def encoder_layer_output(
    layer: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **arguments: Any
) -> Tensor:
    """For BartEncoderLayer.forward, which branches on whether a float16 tensor holds an infinity."""
    attention_output, _ = layer.self_attn(hidden_states, attention_mask=attention_mask, **arguments)
    attended = layer.self_attn_layer_norm(hidden_states + attention_output)
    return _clamped_float16(layer.final_layer_norm(attended + layer.fc2(layer.activation_fn(layer.fc1(attended)))))


def _clamped_float16(hidden_states: Tensor) -> Tensor:
    """In float16, all values are clamped to the finite range if any is infinite, as in the original."""
    if hidden_states.dtype != torch.float16:
        return hidden_states
    largest = torch.finfo(torch.float16).max
    all_finite = (hidden_states.float().abs() <= largest).all()
    return torch.where(all_finite, hidden_states, hidden_states.clamp(1000 - largest, largest - 1000))
