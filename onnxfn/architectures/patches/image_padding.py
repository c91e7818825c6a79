"""Padding of images, computed for every size. The originals branch on the size, and a trace would record one branch.

They are in modeling_mobilenet_v1, modeling_mobilenet_v2, modeling_focalnet, modeling_swin, modeling_maskformer_swin and
modeling_swin2sr (transformers 5.23).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def padded_as_tensorflow(features: Tensor, conv_layer: Any) -> Tensor:
    """For `apply_tf_padding`, which branches on whether the stride divides the size.

    The padding makes the number of convolution steps `ceil(size / stride)` ("same" padding of TensorFlow).
    """
    pads: list[int] = []
    for size, kernel, stride, dilation in zip(
        features.shape[:1:-1],
        conv_layer.kernel_size[::-1],
        conv_layer.stride[::-1],
        conv_layer.dilation[::-1],
        strict=True,
    ):
        padding = (size - 1) // stride * stride + kernel - size
        before = padding // 2
        pads += [before * dilation, (padding - before) * dilation]
    return torch.nn.functional.pad(features, pads)


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
    """For `maybe_pad` of Swin's layers: the states, padded to full windows, and padding of at least 1.

    A layer cuts the padding off if it is not 0. Here it always does, which changes nothing where there is none, unless
    the size is known.
    """
    below, right = _missing(height, self.window_size), _missing(width, self.window_size)
    padding = (0, 0, 0, right, 0, below)
    cut = padding if isinstance(below, int) and isinstance(right, int) else (0, 0, 0, 1, 0, 1)
    return _padded(hidden_states, *padding), cut


def padded_to_windows(self: Any, pixel_values: Tensor) -> Tensor:
    """For `pad_and_normalize` of Swin2SR, with a padded size that torch.export knows to be a multiple of the window."""
    window = self.config.window_size
    height, width = (_missing(size, window) for size in pixel_values.shape[2:])
    padded = torch.nn.functional.pad(pixel_values, (0, width, 0, height), "reflect")
    return (padded - self.mean.to(padded)) * self.img_range


def unpadded_states(
    _: Any,
    hidden_states: Tensor,
    height: int,  # noqa: ARG001 - full windows already
    width: int,  # noqa: ARG001
) -> tuple[Tensor, tuple[int, ...]]:
    """For `maybe_pad` of Swin2SR's layers: no padding, since `padded_to_windows` pads the image to full windows."""
    return hidden_states, (0, 0, 0, 0, 0, 0)


def _padded(tensor: Tensor, *padding: int) -> Tensor:
    """A padded tensor; the tensor itself if all sizes are known, and nothing is missing."""
    is_full = all(isinstance(size, int) and not size for size in padding)
    return tensor if is_full else torch.nn.functional.pad(tensor, padding)


def _missing(size: int, unit: int) -> int:
    """What a size lacks to a multiple of a unit, as a formula that torch.export simplifies when it is added."""
    return (size + unit - 1) // unit * unit - size
