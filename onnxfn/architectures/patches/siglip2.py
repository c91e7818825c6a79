"""SigLIP 2 without a loop over images: position embeddings of all images are interpolated at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def resized_positional_embeddings(
    _: Any, positional_embeddings: Tensor, spatial_shapes: Tensor, max_length: int
) -> Tensor:
    """For Siglip2VisionEmbeddings.resize_positional_embeddings (modeling_siglip2, transformers 5.23).

    Resizes the table `[height, width, size]` to the shape of each image: `[images, max_length, size]`. Bilinear
    resizing with antialiasing is a weighted mean of rows and columns of the table. A padding patch has the embedding of
    the first patch.
    """
    height, width, _ = positional_embeddings.shape
    patches = torch.arange(max_length, device=positional_embeddings.device)[None]
    rows, columns = spatial_shapes[:, :1], spatial_shapes[:, 1:]
    is_patch = patches < rows * columns
    row = torch.where(is_patch, patches // columns, 0)
    column = torch.where(is_patch, patches % columns, 0)
    row_weights, column_weights = (
        antialiased_weights(row, rows, height),
        antialiased_weights(column, columns, width),
    )
    table = positional_embeddings.float()
    resized: Tensor = torch.einsum("ndc,ndr,rcs->nds", column_weights, row_weights, table)
    return resized.to(positional_embeddings.dtype)


def antialiased_weights(indices: Tensor, sizes: Tensor, source: int) -> Tensor:
    """The weights of the `source` elements of an axis in the element at each index, after resizing to `sizes`."""
    scale = source / sizes[..., None].float()
    centers = (indices[..., None].float() + 0.5) * scale
    distances = (torch.arange(source, device=indices.device) + 0.5 - centers).abs() / scale.clamp(min=1.0)
    weights = (1.0 - distances).clamp(min=0.0)
    return weights / weights.sum(dim=-1, keepdim=True)
