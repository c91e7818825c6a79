"""The two halves of PP-FormulaNet, which writes a formula as a text."""

from __future__ import annotations

from typing import Any

from onnxfn.architectures.private.renamed import called, field
from onnxfn.architectures.wrappers.modules import module


def vision_encoder(model: Any) -> Any:
    """Images -> what the decoder reads: the projected rows, not the last grid of the tower."""
    return module(
        lambda pixel_values: {"last_hidden_state": model.model.encoder(pixel_values=pixel_values).pooler_output}
    )


def text_decoder(model: Any) -> Any:
    """Tokens and the rows of an image -> logits and cache."""

    def forward(**inputs: Any) -> dict[str, Any]:
        states = called(model.model.decoder, **inputs)
        return {"logits": model.lm_head(states.last_hidden_state), "past_key_values": field(states, "past_key_values")}

    return module(forward)
