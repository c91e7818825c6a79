"""CLIPSeg without a comparison of batch sizes in Python."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def conditional_embeddings(model: Any, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Tensor:
    """For CLIPSegForImageSegmentation.get_conditional_embeddings (modeling_clipseg, transformers 5.23).

    The original compares the number of texts with the number of images. The axes of the inputs ensure that they agree.
    """
    embeddings: Tensor = model.clip.get_text_features(input_ids, attention_mask=attention_mask).pooler_output
    return embeddings
