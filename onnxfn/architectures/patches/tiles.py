"""Tiles of images of which some are padding, all zeros: their features are left out at the end, not their pixels.

The originals (transformers 5.23) leave the padding out first, and the number of tiles that are left is no size that the
layers after it can have in a graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def idefics2_features(self: Any, pixel_values: Tensor, pixel_attention_mask: Tensor | None = None, **_: Any) -> Any:
    """For Idefics2Model.get_image_features: a patch counts if all of its pixels do; the perceiver sees the mask."""
    pixels, is_tile, squares = _tiles(self, pixel_values, pixel_attention_mask)
    mask = squares.all(-1).all(-1)
    states = self.vision_model(pixel_values=pixels, patch_attention_mask=mask).last_hidden_state
    return _rows_of_tiles(self.connector(states, attention_mask=mask.flatten(1)), is_tile)


def idefics3_features(self: Any, pixel_values: Tensor, pixel_attention_mask: Tensor | None = None, **_: Any) -> Any:
    """For Idefics3Model.get_image_features: a patch counts if one of its pixels does."""
    pixels, is_tile, squares = _tiles(self, pixel_values, pixel_attention_mask)
    mask = squares.any(-1).any(-1)
    states = self.vision_model(pixel_values=pixels, patch_attention_mask=mask, return_dict=True).last_hidden_state
    return _rows_of_tiles(self.connector(states), is_tile)


def smolvlm_features(self: Any, pixel_values: Tensor, pixel_attention_mask: Tensor | None = None, **_: Any) -> Any:
    """For get_image_features of SmolVLM, ModernVBERT and UltraVBERT: the first tile counts if all are padding."""
    pixels, is_tile, squares = _tiles(self, pixel_values, pixel_attention_mask)
    mask = squares.any(-1).any(-1)
    states = self.vision_model(pixel_values=pixels, patch_attention_mask=mask, return_dict=True).last_hidden_state
    is_first = torch.arange(is_tile.shape[0], device=is_tile.device) == 0
    return _rows_of_tiles(self.connector(states), is_tile | (is_first & ~is_tile.any()))


def _tiles(model: Any, pixel_values: Tensor, pixel_attention_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The tiles of all texts, which of them are no padding, and the squares of pixels of each patch in the mask.

    Padding has a mask of ones: a softmax over no patch at all is NaN. Without a mask all pixels count.
    """
    pixels = pixel_values.flatten(0, 1)
    is_tile = (pixels != 0).flatten(1).any(-1)
    counts = pixels[:, 0] == pixels[:, 0] if pixel_attention_mask is None else pixel_attention_mask.flatten(0, 1).bool()
    mask = counts | ~is_tile[:, None, None]
    side = model.config.vision_config.patch_size
    return pixels, is_tile, mask.unfold(1, side, side).unfold(2, side, side)


def _rows_of_tiles(features: Tensor, is_tile: Tensor) -> Any:
    """A result with the rows of the tiles that are no padding, `[tokens, width]`."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    rows = is_tile[:, None].expand(-1, features.shape[1]).flatten()
    return BaseModelOutputWithPooling(pooler_output=features.flatten(0, 1)[rows])
