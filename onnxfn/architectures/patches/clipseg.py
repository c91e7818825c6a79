"""CLIPSeg without a comparison of batch sizes in Python."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def conditional_embeddings(
    model: Any,
    batch_size: Any = None,  # noqa: ARG001
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    conditional_pixel_values: Tensor | None = None,
) -> Tensor:
    """For CLIPSegForImageSegmentation.get_conditional_embeddings (modeling_clipseg, transformers 5.23).

    The original compares the number of texts with the number of images. The axes of the inputs ensure that they agree.
    """
    clip = model.clip
    if input_ids is None:
        return clip.get_image_features(conditional_pixel_values).pooler_output
    texts = clip.get_text_features(input_ids, attention_mask=attention_mask, position_ids=position_ids)
    return texts.pooler_output
