"""Position embeddings of images, always interpolated, unless the size of an image is known.

The originals branch on the size of the image, and a trace would record one branch. They are in transformers 5.23:
modeling_dinov2 and the models derived from it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def interpolated_bicubic(
    self: Any,
    embeddings: Tensor,  # noqa: ARG001 - the original compares their number with that of its table
    height: int,
    width: int,
) -> Tensor:
    """For `interpolate_pos_encoding` of DINOv2, which does not interpolate at the size of its table."""
    return _interpolated(self, height, width, mode="bicubic")


def interpolated_bilinear(
    self: Any,
    embeddings: Tensor,  # noqa: ARG001
    height: int,
    width: int,
) -> Tensor:
    """For `interpolate_pos_encoding` of TIPSv2, which also converts height and width to Python integers."""
    return _interpolated(self, height, width, mode="bilinear", antialias=True)


def _interpolated(self: Any, height: int, width: int, **options: Any) -> Tensor:
    """The class tokens' embeddings, and those of the patches of an image of this size: `[1, tokens, hidden]`."""
    patch_height, patch_width = self.patch_embeddings.projection.stride
    class_tokens = getattr(self, "n_cls_tokens", 1)
    class_embeddings, table = self.position_embeddings[:, :class_tokens], self.position_embeddings[:, class_tokens:]
    side = int(table.shape[1] ** 0.5)
    rows, columns = height // patch_height, width // patch_width
    if isinstance(rows, int) and isinstance(columns, int) and rows == columns == side:
        whole: Tensor = self.position_embeddings
        return whole
    grid = table.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(grid.float(), size=(rows, columns), align_corners=False, **options)
    patch_embeddings = resized.to(table.dtype).permute(0, 2, 3, 1).reshape(1, -1, table.shape[-1])
    return torch.cat((class_embeddings, patch_embeddings), dim=1)
