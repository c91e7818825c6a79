"""A class of a text read by an encoder-decoder: a selection of rows by a mask, whose number a trace would not know."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def classified(model: Any, input_ids: Tensor, attention_mask: Tensor | None = None, **arguments: Any) -> Any:
    """The classes by what the decoder says at the last token that ends a text (modeling_bart, transformers 5.23)."""
    import torch
    from transformers.modeling_outputs import SequenceClassifierOutput

    arguments["use_cache"] = False
    hidden = model.model(input_ids, attention_mask=attention_mask, **arguments)[0]
    places = torch.arange(input_ids.shape[1], device=input_ids.device)
    last = torch.where(input_ids == model.config.eos_token_id, places, 0).amax(dim=1)
    chosen = hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.shape[-1]))[:, 0]
    return SequenceClassifierOutput(logits=model.classification_head(chosen))
