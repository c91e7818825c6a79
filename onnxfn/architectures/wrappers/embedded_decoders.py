"""The decoder of an encoder-decoder, which takes embeddings of its tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.renamed import called
from onnxfn.architectures.wrappers.modules import module


def decoder_of_embeddings(model: Any) -> Any:
    """The model with `decoder_inputs_embeds`, handed to its decoder: `forward` of some models asks for tokens too."""
    inside = model.get_decoder()
    decoder = getattr(inside, "decoder", inside)  # that of Florence-2 is BART with its encoder

    def forward(decoder_inputs_embeds: Tensor | None = None, **inputs: Any) -> Any:
        if decoder_inputs_embeds is None:  # the check runs texts by their tokens
            return called(model, **inputs)
        rows = decoder_inputs_embeds
        unread = torch.zeros(rows.shape[:2], dtype=torch.int64, device=rows.device)

        def embedded(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
            return arguments, {**named, "input_ids": None, "inputs_embeds": rows}

        hook = decoder.register_forward_pre_hook(embedded, with_kwargs=True)
        try:
            return called(model, decoder_input_ids=unread, **inputs)
        finally:
            hook.remove()

    return module(forward)
