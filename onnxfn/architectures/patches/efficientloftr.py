"""EfficientLoFTR on images of any size that it takes (modeling_efficientloftr, transformers 5.23).

What is enlarged is as large as what it is joined with, and that is said, rather than a factor; the model makes numbers
of its sides in Python.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def aggregated_attention(
    self: Any, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, **options: Any
) -> Tensor:
    """For EfficientLoFTRAggregatedAttention.forward."""
    asking, told = self.aggregation(hidden_states, encoder_hidden_states)
    rows, columns = asking.shape[1:3]
    answer, _ = self.attention(asking.flatten(1, 2), told.flatten(1, 2), **options)
    image = answer.transpose(1, 2).unflatten(2, (rows, columns))
    joined = torch.cat((hidden_states, resized_like(image, hidden_states)), dim=1)
    return hidden_states + self.mlp(joined.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def fine_windows(self: Any, coarse: Tensor, residuals: Any) -> tuple[Tensor, Tensor]:
    """For EfficientLoFTRFineFusionLayer.forward: the fine features around each cell, of both images."""
    batch = coarse.shape[0]
    fine = self.out_conv(coarse.flatten(0, 1))
    for layer, residual in zip(self.out_conv_layers, reversed(residuals), strict=False):
        joined = layer.out_conv1(residual) + resized_like(fine, residual)
        fine = layer.out_conv3(layer.activation(layer.batch_norm(layer.out_conv2(joined))))
    whole = torch.nn.functional.interpolate(fine, scale_factor=2.0, mode="bilinear", align_corners=False)
    first, second = whole.unflatten(0, (batch, 2)).unbind(1)
    stride = 2 ** (len(self.out_conv_layers) + 1)
    return cell_windows(first, self.fine_kernel_size, stride, 0), cell_windows(
        second, self.fine_kernel_size + 2, stride, 1
    )


def cell_windows(image: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """`[batch, cells, places, channels]`: what is around each cell."""
    found = torch.nn.functional.unfold(image, kernel_size=size, stride=stride, padding=padding)
    return found.unflatten(1, (-1, size**2)).permute(0, 3, 2, 1)


def resized_like(image: Tensor, like: Tensor) -> Tensor:
    """An image as large as another."""
    return torch.nn.functional.interpolate(image, size=like.shape[2:], mode="bilinear", align_corners=False)


def mask_without_border(tensor: Tensor, border_margin: int, *_: Any) -> Tensor:
    """For `mask_border`: nothing that is masked holds at the border of either image."""
    for axis, size in enumerate(tensor.shape[1:], start=1):
        places = torch.arange(size)
        inside = (places >= border_margin) & (places < size - border_margin)
        tensor = tensor & inside.reshape([-1 if other == axis else 1 for other in range(tensor.dim())])
    return tensor


def keypoint_matching_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For EfficientLoFTRForKeypointMatching.forward."""
    found = self.efficientloftr(pixel_values, **options)
    coarse, *residuals = found.feature_maps
    height, width = pixel_values.shape[3:]
    keypoints, scores, matches = self._coarse_matching(coarse, math.prod(self.config.stage_stride))
    fine = self.refinement_layer(coarse / self.config.hidden_size**0.5, residuals)
    rows = torch.arange(pixel_values.shape[0])[:, None]
    around = (one[rows, matches[:, place]] for place, one in enumerate(fine))
    placed = self._fine_matching(*around, keypoints, 1.0)
    return {
        "matches": matches,
        "matching_scores": scores,
        "keypoints": torch.stack((placed[..., 0] / width, placed[..., 1] / height), dim=-1),
        "hidden_states": found.hidden_states,
        "attentions": found.attentions,
    }
