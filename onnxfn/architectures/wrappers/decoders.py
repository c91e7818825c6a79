"""Decoders that take embeddings, OLMo Hybrid and PP-FormulaNet (transformers 5.23)."""

from functools import wraps
from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.renamed import called, field
from onnxfn.architectures.wrappers.modules import changed_inputs, module

PARTS = ("query", "key", "value")
"""The parts of a state, in the order of its channels."""


def with_conv_states_in_parts(model: Any) -> Any:
    """The model; the cache that it returns also has the parts of each state, as `conv_states["query"]` and so on."""
    config = model.config
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    sizes = (keys, keys, config.linear_num_value_heads * config.linear_value_head_dim)

    @wraps(model.forward)
    def forward(*arguments: Any, **named: Any) -> Any:
        outputs = model(*arguments, **named)
        for layer in getattr(field(outputs, "past_key_values"), "layers", ()):
            states = getattr(layer, "conv_states", {})
            if states.get(0) is not None:
                states.update(zip(PARTS, states[0].split(sizes, dim=1), strict=True))
        return outputs

    return module(forward)


def decoder_of_embeddings(model: Any, decoder_inputs_embeds: Tensor | None = None, **inputs: Any) -> Any:
    """Runs the model with `decoder_inputs_embeds`; zeros are passed as ids, because some `forward`s require them."""
    inside = model.get_decoder()
    decoder = getattr(inside, "decoder", inside)  # that of Florence-2 is BART with its encoder
    if decoder_inputs_embeds is None:  # the check runs texts by their tokens
        return called(model, **inputs)
    rows = decoder_inputs_embeds
    unread = torch.zeros(rows.shape[:2], dtype=torch.int64, device=rows.device)
    with changed_inputs(decoder, lambda named: {**named, "input_ids": None, "inputs_embeds": rows}):
        return called(model, decoder_input_ids=unread, **inputs)


def decoder_of_formulas(model: Any, **inputs: Any) -> dict[str, Any]:
    """PP-FormulaNet, which writes a formula as a text: tokens and the rows of an image -> logits and cache."""
    states = called(model.model.decoder, **inputs)
    return {"logits": model.lm_head(states.last_hidden_state), "past_key_values": field(states, "past_key_values")}
