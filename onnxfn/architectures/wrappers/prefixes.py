"""Decoders that read prompts in both directions: PaliGemma (arXiv 2407.07726, section 3)."""

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.renamed import called, name_among
from onnxfn.architectures.wrappers.modules import changed_inputs


def language_model(model: Any, attention_mask: Tensor, **inputs: Any) -> Any:
    """The model as a decoder: tokens attend to each other in both directions while the cache is empty."""
    # Clients give a decoder no types of tokens, as processors do, but the prompt in one step, with an empty cache.

    def masked(named: dict[str, Any]) -> dict[str, Any]:
        return {**named, "attention_mask": _masks(model, attention_mask, named)}

    with changed_inputs(model.base_model.language_model, masked):
        return called(model, attention_mask=attention_mask, **inputs)


def prefix_attention_model(model: Any, input_ids: Tensor, **inputs: Any) -> Any:
    """PaliGemma with all tokens in the prefix, as with ColPali's processor; transformers needs types for padding."""
    return model(input_ids=input_ids, token_type_ids=torch.zeros_like(input_ids), **inputs)


def _masks(model: Any, attention_mask: Tensor, inputs: dict[str, Any]) -> Any:
    """The mask of a language model, with the tokens of a prompt in one block."""
    from transformers import masking_utils

    cached = name_among("past_key_values", inputs)
    rows, cache = inputs["inputs_embeds"], inputs[cached]
    past = 0 if cache is None else cache.get_seq_length()
    is_prompt = torch.full(rows.shape[:2], past, dtype=torch.int64, device=rows.device) == 0
    arguments = {name: inputs[name] for name in ("inputs_embeds", cached, "position_ids")}
    arguments |= {"config": model.config.get_text_config(), "attention_mask": attention_mask}
    arguments |= {"block_sequence_ids": torch.where(is_prompt, 0, -1)}
    full = masking_utils.create_causal_mask(**arguments)
    if not isinstance(inputs["attention_mask"], dict):
        return full
    sliding = masking_utils.create_sliding_window_causal_mask(**arguments)
    return {"full_attention": full, "sliding_attention": sliding}
