"""RT-DETR and models derived from it, for images of any size (modeling_rt_detr, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def tensor_length(self: Tensor) -> int:
    """For Tensor.__len__: the traced size, without a guard that fixes it.

    The model takes the `len` of a batch. Python requires an int, and the trace would fix the batch size to it. The
    model uses it for learned queries only. If the size did matter there, the check with other batch sizes would fail.
    """
    size = self.shape[0]
    node = getattr(size, "node", None)
    return int(size) if node is None else int(node.hint)


def sine_position_embedding(self: Any, width: int, height: int, device: Any, dtype: Any) -> Tensor:
    """For RTDetrSinePositionEmbedding.forward, which converts height and width to Python integers."""
    from transformers.models.rt_detr.modeling_rt_detr import build_2d_sinusoidal_position_embedding

    embedding: Tensor = build_2d_sinusoidal_position_embedding(
        height=height,
        width=width,
        embed_dim=self.embed_dim,
        temperature=self.temperature,
        device=device,
        dtype=dtype,
    )
    return embedding.unsqueeze(0)


def gathered_along_dim(input: Tensor, indices: Tensor, dim: int) -> Tensor:  # noqa: A002 - the original's signature
    """For torch.take_along_dim, which compares sizes and so fixes the batch. Here the sizes are equal."""
    return torch.gather(input, dim, indices)
