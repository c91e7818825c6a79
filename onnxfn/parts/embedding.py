"""The table of embeddings of a model, as a part of its own."""

from __future__ import annotations

from typing import Any

from onnxfn.parts.modules import module


def table(model: Any) -> Any:
    """A module that gives the embeddings of tokens, as the model would look them up."""

    def forward(input_ids: Any) -> dict[str, Any]:
        return {"inputs_embeds": model.get_input_embeddings()(input_ids)}

    return module(forward)
