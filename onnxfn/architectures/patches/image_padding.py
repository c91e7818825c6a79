"""Branches on the size of an image, which a trace would take one way, as arithmetic that holds for every size.

The originals are in transformers 5.23: modeling_mobilenet_v1, modeling_mobilenet_v2, modeling_focalnet,
modeling_swin2sr, modeling_dinov2 and those made after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def padded_as_tensorflow(features: Tensor, convolution: Any) -> Tensor:
    """For `apply_tf_padding`, which asks whether a stride divides the size: up to the last step that begins inside."""
    import torch

    pads: list[int] = []
    for size, kernel, stride, dilation in zip(
        features.shape[:1:-1],
        convolution.kernel_size[::-1],
        convolution.stride[::-1],
        convolution.dilation[::-1],
        strict=True,
    ):
        missing = (size - 1) // stride * stride + kernel - size
        before = missing // 2
        pads += [before * dilation, (missing - before) * dilation]
    return torch.nn.functional.pad(features, pads)


def padded_to_patches(self: Any, pixel_values: Tensor, height: int, width: int) -> Tensor:
    """For `maybe_pad` of FocalNet, which pads an image that patches do not divide: here always, by what is missing."""
    import torch

    rows, columns = self.patch_size
    return torch.nn.functional.pad(pixel_values, (0, -width % columns, 0, -height % rows))


def padded_to_windows(self: Any, pixel_values: Tensor) -> Tensor:
    """For `pad_and_normalize` of Swin2SR: the same numbers, of a size that is seen to be so many windows."""
    import torch

    window = self.config.window_size
    height, width = ((size + window - 1) // window * window - size for size in pixel_values.shape[2:])
    padded = torch.nn.functional.pad(pixel_values, (0, width, 0, height), "reflect")
    return (padded - self.mean.to(padded)) * self.img_range


def unpadded_states(_: Any, hidden_states: Tensor, __: int, ___: int) -> tuple[Tensor, tuple[int, ...]]:
    """For `maybe_pad` of Swin2SR's layers: an image that was padded to whole windows needs no more of it."""
    return hidden_states, (0, 0, 0, 0, 0, 0)
