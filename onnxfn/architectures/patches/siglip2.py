"""SigLIP 2 without a loop over images: the places of all are read off one table at once."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def resized_positional_embeddings(_: Any, table: Tensor, shapes: Tensor, max_length: int) -> Tensor:
    """The table of places `[height, width, size]` in the shape of each image: `[images, max_length, size]`.

    As bilinear resizing with antialiasing does, a place is a mean of those of the table around it; a patch that stands
    for padding has the first (Siglip2VisionEmbeddings.resize_positional_embeddings, transformers 5.23).
    """
    import torch

    height, width, _ = table.shape
    patches = torch.arange(max_length, device=table.device)[None]
    rows, columns = shapes[:, :1], shapes[:, 1:]
    real = patches < rows * columns
    row = torch.where(real, patches // columns, 0)
    column = torch.where(real, patches % columns, 0)
    down, across = _shares(row, rows, height), _shares(column, columns, width)
    made: Tensor = torch.einsum("ndc,ndr,rcs->nds", across, down, table.float()).to(table.dtype)
    return made


def _shares(places: Tensor, sizes: Tensor, source: int) -> Tensor:
    """How much of each of `source` places there is in a place of an axis that is resized to other sizes."""
    import torch

    scale = source / sizes[..., None].float()
    centers = (places[..., None].float() + 0.5) * scale
    apart = (torch.arange(source, device=places.device) + 0.5 - centers).abs() / scale.clamp(min=1.0)
    shares = (1.0 - apart).clamp(min=0.0)
    return shares / shares.sum(dim=-1, keepdim=True)
