"""The sizes of the image features of SAM 3, which stay numbers: `transformers.models.sam3.modeling_sam3` (5.23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor


@frozen
class LevelSizes:
    """Stands for the tensor of the height and the width of each level, `[levels, 2]`. No value is read from a tensor.

    Attributes:
        sizes: The height and the width of each level.
    """

    sizes: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the tensor."""
        return len(self.sizes), 2

    def __getitem__(self, index: tuple[int, int]) -> int:
        level, axis = index
        return self.sizes[level][axis]


def flat_features(
    _: Any, vision_features: Sequence[Tensor], vision_pos_embeds: Sequence[Tensor]
) -> tuple[Tensor, Tensor, LevelSizes]:
    """For Sam3DetrEncoder._prepare_multilevel_features: features and positions of all levels in one row, and sizes."""
    features, positions = (
        torch.cat([level.flatten(2).transpose(1, 2) for level in levels], dim=1)
        for levels in (vision_features, vision_pos_embeds)
    )
    sizes = tuple((level.shape[-2], level.shape[-1]) for level in vision_features)
    return features, positions, LevelSizes(sizes)
