"""Blocks of Hiera in windows (timm.models.hieradet_sam2, timm 1.0)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def windowed_block(self: Any, x: Tensor) -> Tensor:
    """For MultiScaleBlock.forward, which divides the number of windows by sizes to know the batch again.

    A trace has the quotient of formulas as the batch of each block, and the next block divides that: the formulas grow
    with each block. Here the batch and the numbers of windows are those from before the division.
    """
    shortcut, states = x, self.norm1(x)
    if self.dim != self.dim_out:
        shortcut = self.proj(states)
        if self.pool is not None:
            shortcut = self.pool(shortcut.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    states = _attention_in_windows(self, states) if self.is_windowed else self.attn(states)
    height, width = shortcut.shape[1:3]
    cut = states[:, :height, :width].clone(memory_format=torch.contiguous_format)
    states = shortcut + self.drop_path1(self.ls1(cut))
    return states + self.drop_path2(self.ls2(self.mlp(self.norm2(states))))


def _attention_in_windows(self: Any, states: Tensor) -> Tensor:
    """The attention of each window of an image `[batch, height, width, size]`, as an image that may be larger."""
    batch, height, width, size = states.shape
    high, wide = self.window_size
    rows, columns = (height + high - 1) // high, (width + wide - 1) // wide
    padded = functional.pad(states, (0, 0, 0, columns * wide - width, 0, rows * high - height))
    windows = padded.reshape(batch, rows, high, columns, wide, size).transpose(2, 3)
    attended = self.attn(windows.reshape(batch * rows * columns, high, wide, size))
    high, wide, size = attended.shape[1:]
    image = attended.reshape(batch, rows, columns, high, wide, size).transpose(2, 3)
    return image.reshape(batch, rows * high, columns * wide, size)
