"""CLIPSeg without counting texts and images, which the axes of its inputs say are as many."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def conditional_embeddings(model: Any, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Tensor:
    """What each text asks for (CLIPSegForImageSegmentation.get_conditional_embeddings, transformers 5.23)."""
    asked: Tensor = model.clip.get_text_features(input_ids, attention_mask=attention_mask).pooler_output
    return asked
