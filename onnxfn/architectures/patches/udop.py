"""The image patches beside the text of UDOP: `transformers.models.udop.modeling_udop` (5.23)."""

from __future__ import annotations

import torch
from torch import Tensor


def joined_embeddings(
    image_embeddings: Tensor,
    inputs_embeds: Tensor,
    bbox: Tensor,
    visual_bbox: Tensor | None,
    attention_mask: Tensor | None = None,
    num_patches: int = 14,
    max_len: int = 0,  # noqa: ARG001 - 0 is the number of all patches, and the model asks for no other
    image_size: int = 224,
    patch_size: int = 16,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """For combine_image_text_embeddings: the text, to whose tokens their patches are added, and the other patches.

    The patches that no token has follow the text, and zeros follow them, so that each row is as long as all patches.
    """
    from transformers.models.udop.modeling_udop import get_visual_bbox

    patches = _patch_of_token(bbox, num_patches)
    seen = image_embeddings.gather(1, patches[..., None].expand(-1, -1, image_embeddings.shape[-1]))
    mean = bbox.double().mean(-1)
    is_special = (mean == 0.0) | (mean == 1.0)
    texts = inputs_embeds + torch.where(is_special[..., None], 0.0, seen)

    is_left = torch.ones_like(image_embeddings[..., 0], dtype=torch.bool).scatter(1, patches, False)
    count, index = is_left.sum(1, keepdim=True), torch.arange(is_left.shape[1], device=is_left.device)[None]
    rank = torch.where(is_left, is_left.long().cumsum(1) - 1, count + (~is_left).long().cumsum(1) - 1)
    order = torch.zeros_like(rank).scatter(1, rank, index.expand_as(rank))
    exists = index < count
    boxes = (
        get_visual_bbox(image_size, patch_size).to(image_embeddings.device)[None]
        if visual_bbox is None
        else visual_bbox
    )
    boxes = boxes.expand(order.shape[0], -1, -1)

    def left(values: Tensor) -> Tensor:
        ordered = values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))
        return torch.where(exists[..., None], ordered, torch.zeros_like(ordered))

    embeddings = torch.cat([texts, left(image_embeddings)], 1)
    places = torch.cat([bbox.double(), left(boxes).double()], 1)
    mask = None if attention_mask is None else torch.cat([attention_mask, exists.to(attention_mask.dtype)], 1)
    return embeddings, places, mask


def _patch_of_token(bbox: Tensor, side: int) -> Tensor:
    """The index of the patch in which the middle of a token's box lies."""
    column, row = (
        ((bbox[..., axis] + bbox[..., axis + 2]) / 2.0 * side).floor().long().clamp(0, side - 1) for axis in (0, 1)
    )
    return column + row * side
