"""Padding and windows of images of any size, in transformers (5.23), timm (1.0) and diffusers."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def padded_as_tensorflow(features: Tensor, conv_layer: Any) -> Tensor:
    """For `apply_tf_padding`, which branches on whether the stride divides the size: "same" padding."""
    pads: list[int] = []
    options = zip(features.shape[2:], conv_layer.kernel_size, conv_layer.stride, conv_layer.dilation, strict=True)
    for size, kernel, stride, dilation in reversed([*options]):
        padding = (size - 1) // stride * stride + kernel - size
        before = padding // 2
        pads += [before * dilation, (padding - before) * dilation]
    return functional.pad(features, pads)


def padded_to_patches(self: Any, pixel_values: Tensor, height: int, width: int) -> Tensor:
    """For `maybe_pad` of FocalNet and Swin, which pads only if a patch does not divide a side. Here it always pads."""
    rows, columns = self.patch_size
    return _padded(pixel_values, 0, _missing(width, columns), 0, _missing(height, rows))


def padded_to_even(_: Any, input_feature: Tensor, height: int, width: int) -> Tensor:
    """For `maybe_pad` of Swin's merging of patches, which pads only if a side is odd. Here it always pads."""
    return _padded(input_feature, 0, 0, 0, _missing(width, 2), 0, _missing(height, 2))


def padded_to_layer_windows(
    self: Any, hidden_states: Tensor, height: int, width: int
) -> tuple[Tensor, tuple[int, ...]]:
    """For `maybe_pad` of Swin's layers: full windows, and padding of at least 1, so that a layer always cuts it off."""
    below, right = _missing(height, self.window_size), _missing(width, self.window_size)
    padding = (0, 0, 0, right, 0, below)
    cut = padding if isinstance(below, int) and isinstance(right, int) else (0, 0, 0, 1, 0, 1)
    return _padded(hidden_states, *padding), cut


def _padded(tensor: Tensor, *padding: int) -> Tensor:
    """A padded tensor; the tensor itself if all sizes are known, and nothing is missing."""
    return tensor if all(isinstance(size, int) and not size for size in padding) else functional.pad(tensor, padding)


def _missing(size: int, unit: int) -> int:
    """The padding of a size to a multiple of a unit, as a formula whose sum with the size torch.export simplifies."""
    return (size + unit - 1) // unit * unit - size


def windowed_block(self: Any, x: Tensor) -> Tensor:
    """For MultiScaleBlock.forward, which divides numbers of windows by sizes: formulas would grow with each block."""
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


NUM_UPSAMPLERS = property(lambda _: 60)
"""For UNet2DConditionModel.num_upsamplers: the model passes sizes on if `2 ** num_upsamplers` divides no side.

A trace fixes that branch; `2 ** 60` divides no side.
"""


def upsampled_features(self: Any, hidden_states: Tensor, output_size: Any = None, *_: Any, **__: Any) -> Tensor:
    """For Upsample2D.forward, which changes the memory layout for batches of 64 and more."""
    features = hidden_states
    if self.norm is not None:
        features = self.norm(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    if self.use_conv_transpose:
        return self.conv(features)
    if self.interpolate:
        size = {"scale_factor": 2.0} if output_size is None else {"size": output_size}
        features = functional.interpolate(features, mode="nearest", **size)
    if not self.use_conv:
        return features
    return self.conv(features) if self.name == "conv" else self.Conv2d_0(features)
