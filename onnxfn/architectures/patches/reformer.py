"""Reformer's axial positions, without a loop over the batch (modeling_reformer, transformers 5.23)."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor


def axial_positions(module: Any, position_ids: Tensor) -> Tensor:
    """For AxialPositionEmbeddings.forward, which picks the positions of one text after another.

    It also cuts the table behind the largest position, which changes no value. The table is that of the two factors,
    (rows, columns, features of both), with one row for each position.
    """
    shape = tuple(module.axial_pos_shape)
    if prod(shape) < position_ids.shape[1]:
        raise ValueError(f"axial_pos_shape={shape} has {prod(shape)} positions")
    table = torch.cat([weight.expand(*shape, weight.shape[-1]) for weight in module.weights], dim=-1)
    return table.flatten(0, -2)[position_ids]
