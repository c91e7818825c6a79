"""BART and those that copy it, without what depends on the numbers: rows that a mask selects, infinities looked for."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def sequence_classifier_output(
    model: Any, input_ids: Tensor, attention_mask: Tensor | None = None, **arguments: Any
) -> Any:
    """The classes by what the decoder says at the last token that ends a text (modeling_bart, transformers 5.23)."""
    import torch
    from transformers.modeling_outputs import SequenceClassifierOutput

    arguments["use_cache"] = False
    hidden = model.model(input_ids, attention_mask=attention_mask, **arguments)[0]
    places = torch.arange(input_ids.shape[1], device=input_ids.device)
    last = torch.where(input_ids == model.config.eos_token_id, places, 0).amax(dim=1)
    chosen = hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1]))[:, 0]
    return SequenceClassifierOutput(logits=model.classification_head(chosen))


def encoder_layer_output(
    layer: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **arguments: Any
) -> Tensor:
    """What a layer of the encoder makes of a text (BartEncoderLayer.forward, transformers 5.23)."""
    made, _ = layer.self_attn(hidden_states, attention_mask=attention_mask, **arguments)
    seen = layer.self_attn_layer_norm(hidden_states + made)
    return _finite(layer.final_layer_norm(seen + layer.fc2(layer.activation_fn(layer.fc1(seen)))))


def _finite(hidden: Tensor) -> Tensor:
    """In float16, where any number is infinite, all are brought within what float16 holds, as the model does."""
    import torch

    if hidden.dtype != torch.float16:
        return hidden
    largest = torch.finfo(torch.float16).max
    within = (hidden.float().abs() <= largest).all()
    return torch.where(within, hidden, hidden.clamp(1000 - largest, largest - 1000))
