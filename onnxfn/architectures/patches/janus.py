"""Janus without images: patches whose shapes do not depend on how many images there are (transformers 5.23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def patch_embeddings(
    self: Any,
    pixel_values: Tensor,
    interpolate_pos_encoding: bool = False,  # noqa: ARG001, FBT001, FBT002 - images have the size of the table
) -> Tensor:
    """For JanusVisionEmbeddings.forward: flatten becomes a Reshape with an unknown size, which no image has.

    Images have the size of the configuration.
    """
    patches = self.patch_embedding(pixel_values)
    rows = patches.reshape(patches.shape[0], patches.shape[1], self.num_patches).transpose(1, 2)
    return rows + self.position_embedding(self.position_ids)
