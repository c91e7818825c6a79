"""RT-DETR and those after it, of images of any size (modeling_rt_detr, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def tensor_length(self: Tensor) -> int:
    """For Tensor.__len__: the traced length, without the promise that it stays.

    The model asks for the `len` of a batch, which Python answers with a number that the trace then fixes. It is used
    for queries that are learned alone, and there the check, at other batch sizes, would tell.
    """
    size = self.shape[0]
    node = getattr(size, "node", None)
    return int(size) if node is None else int(node.hint)


def sine_position_embedding(self: Any, width: int, height: int, device: Any, dtype: Any) -> Tensor:
    """For RTDetrSinePositionEmbedding.forward, which makes a number of each side of the image."""
    from transformers.models.rt_detr.modeling_rt_detr import build_2d_sinusoidal_position_embedding

    made: Tensor = build_2d_sinusoidal_position_embedding(
        height=height,
        width=width,
        embed_dim=self.embed_dim,
        temperature=self.temperature,
        device=device,
        dtype=dtype,
    )
    return made.unsqueeze(0)


def gathered_along_dim(values: Tensor, places: Tensor, dim: int) -> Tensor:
    """For torch.take_along_dim, which fixes the batch where it asks whether sizes are alike; here they are."""
    import torch

    return torch.gather(values, dim, places)
