"""EfficientLoFTR for images of any size that it accepts (modeling_efficientloftr, transformers 5.23).

Here a tensor is resized to the size of the tensor that it is joined with. The originals resize by a factor, and convert
height and width to Python integers.
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
    queries, keys = self.aggregation(hidden_states, encoder_hidden_states)
    rows, columns = queries.shape[1:3]
    attention_output, _ = self.attention(queries.flatten(1, 2), keys.flatten(1, 2), **options)
    image = attention_output.transpose(1, 2).unflatten(2, (rows, columns))
    joined = torch.cat((hidden_states, resized_like(image, hidden_states)), dim=1)
    return hidden_states + self.mlp(joined.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def fine_windows(self: Any, coarse_features: Tensor, residual_features: Any) -> tuple[Tensor, Tensor]:
    """For EfficientLoFTRFineFusionLayer.forward: the fine features around each coarse cell, for both images."""
    batch = coarse_features.shape[0]
    fine = self.out_conv(coarse_features.flatten(0, 1))
    for layer, residual in zip(self.out_conv_layers, reversed(residual_features), strict=False):
        joined = layer.out_conv1(residual) + resized_like(fine, residual)
        fine = layer.out_conv3(layer.activation(layer.batch_norm(layer.out_conv2(joined))))
    full_size = torch.nn.functional.interpolate(fine, scale_factor=2.0, mode="bilinear", align_corners=False)
    first, second = full_size.unflatten(0, (batch, 2)).unbind(1)
    stride = 2 ** (len(self.out_conv_layers) + 1)
    return (
        cell_windows(first, self.fine_kernel_size, stride, 0),
        cell_windows(second, self.fine_kernel_size + 2, stride, 1),
    )


def cell_windows(image: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """The window around each cell, `[batch, cells, positions, channels]`."""
    windows = torch.nn.functional.unfold(image, kernel_size=size, stride=stride, padding=padding)
    return windows.unflatten(1, (-1, size**2)).permute(0, 3, 2, 1)


def resized_like(image: Tensor, reference: Tensor) -> Tensor:
    """The image, resized to the height and width of `reference`."""
    return torch.nn.functional.interpolate(image, size=reference.shape[2:], mode="bilinear", align_corners=False)


def mask_without_border(
    tensor: Tensor,
    border_margin: int,
    value: Any,  # noqa: ARG001 - of the borders of a mask: False
) -> Tensor:
    """For `mask_border`, which writes into slices of its argument: the mask, false at the borders of both images."""
    for axis, size in enumerate(tensor.shape[1:], start=1):
        indices = torch.arange(size)
        inside = (indices >= border_margin) & (indices < size - border_margin)
        tensor = tensor & inside.reshape([-1 if other == axis else 1 for other in range(tensor.dim())])
    return tensor


def keypoint_matching_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For EfficientLoFTRForKeypointMatching.forward."""
    outputs = self.efficientloftr(pixel_values, **options)
    coarse, *residuals = outputs.feature_maps
    height, width = pixel_values.shape[3:]
    keypoints, scores, matches = self._coarse_matching(coarse, math.prod(self.config.stage_stride))
    fine = self.refinement_layer(coarse / self.config.hidden_size**0.5, residuals)
    rows = torch.arange(pixel_values.shape[0])[:, None]
    windows = (features[rows, matches[:, image]] for image, features in enumerate(fine))
    pixels = self._fine_matching(*windows, keypoints, 1.0)
    return {
        "matches": matches,
        "matching_scores": scores,
        "keypoints": torch.stack((pixels[..., 0] / width, pixels[..., 1] / height), dim=-1),
        "hidden_states": outputs.hidden_states,
        "attentions": outputs.attentions,
    }
