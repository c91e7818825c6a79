"""The embeddings of a model that also draws, by tokens of images (Janus)."""

from typing import Any

import torch
from torch import Tensor


def prepared_embeddings(
    model: Any, input_ids: Tensor, pixel_values: Tensor, images_seq_mask: Tensor
) -> dict[str, Tensor]:
    """Tokens and images -> embeddings with features in the places that a mask marks; there may be no image."""
    # Places beyond the last feature repeat it: a graph cannot refuse a mask with more places than there are features.
    tokens = model.get_input_embeddings()(input_ids)
    seen = model.model.get_image_features(pixel_values.flatten(0, 1), return_dict=True).pooler_output
    rows = torch.cat([torch.zeros_like(tokens[0, :1]), seen.flatten(0, 1)])
    counted = images_seq_mask.flatten().cumsum(0).view_as(images_seq_mask)
    number = torch.where(images_seq_mask, counted, 0).clamp(max=rows.shape[0] - 1)
    return {"inputs_embeds": torch.where(images_seq_mask.unsqueeze(-1), rows[number], tokens)}
