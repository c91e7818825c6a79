"""SuperPoint for all images of a batch at once (modeling_superpoint, transformers 5.23).

The original loops over the images of a batch. Each has its own number of keypoints, and is padded to the largest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.torch_names import torch_name

CELL = 8
"""Height and width in pixels of the cell that one vector of the encoder describes."""


def keypoint_detection_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For SuperPointForKeypointDetection.forward: the same keypoints in the same order."""
    return padded_keypoints(self, pixel_values, 0, **options)


def padded_keypoints(self: Any, pixel_values: Tensor, least: int, **options: Any) -> Any:
    """The outputs of SuperPoint, padded to at least `least` keypoints per image."""
    from transformers.models.superpoint.modeling_superpoint import SuperPointKeypointDescriptionOutput

    height, width = pixel_values.shape[2:]
    encoded = self.encoder(pixel_values[:, :1], output_hidden_states=options.get("output_hidden_states"))
    scores = self.keypoint_decoder._get_pixel_scores(encoded[0])
    columns = scores.shape[2]
    decoder = self.keypoint_decoder
    indices, mask = _indices_and_mask(scores.flatten(1), _is_keypoint(decoder, scores), decoder, least)
    rows = indices // columns
    x, y = (tensor.to(scores.dtype) for tensor in (indices - rows * columns, rows))
    descriptors = _descriptors(self.descriptor_decoder, encoded[0], x, y)
    keypoints = torch.stack((x / width, y / height), dim=-1)
    return SuperPointKeypointDescriptionOutput(
        keypoints=(keypoints * mask[..., None]).float(),
        scores=(scores.flatten(1).gather(1, indices) * mask).float(),
        descriptors=(descriptors * mask[..., None]).float(),
        mask=mask.int(),
        hidden_states=encoded.hidden_states,
    )


def count_as_size(count: Tensor, least: int) -> int:
    """The value of a tensor as a symbolic size, of which torch.export knows only that it is at least `least`."""
    size: Any = count.item()
    torch_name("check")(size >= least)
    known_size: int = size
    return known_size


def _is_keypoint(decoder: Any, scores: Tensor) -> Tensor:
    """Which pixels are keypoints, `[batch, pixels]`. As in the original, only the top and left borders are removed."""
    rows, columns = scores.shape[1:]
    border = decoder.border_removal_distance
    inside = (torch.arange(rows)[:, None] >= border) & (torch.arange(columns) >= border)
    return ((scores > decoder.keypoint_threshold) & inside).flatten(1)


def _indices_and_mask(scores: Tensor, is_keypoint: Tensor, decoder: Any, least: int) -> tuple[Tensor, Tensor]:
    """The pixel index of each keypoint, and which of them hold a keypoint: `[batch, largest number of keypoints]`.

    Keypoints are in row-major order. If there are more than `max_keypoints`, they are in descending order of the score.
    """
    counts = is_keypoint.sum(1)
    pixels = is_keypoint.shape[1]
    limited = counts if decoder.max_keypoints < 0 else counts.clamp(max=decoder.max_keypoints)
    largest = count_as_size(limited.max().clamp(min=least), least)
    torch_name("check")(largest <= pixels)
    priorities = torch.arange(pixels, 0, -1)
    by_index = torch.topk(torch.where(is_keypoint, priorities, 0), largest).indices
    mask = torch.arange(largest) < limited[:, None]
    if decoder.max_keypoints < 0:
        return by_index, mask
    by_score = torch.topk(torch.where(is_keypoint, scores, -torch.inf), largest).indices
    return torch.where((counts > decoder.max_keypoints)[:, None], by_score, by_index), mask


def _descriptors(decoder: Any, encoded: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Descriptors of unit length at these pixels, `[batch, keypoints, size]`."""
    normalize = torch.nn.functional.normalize
    cells = normalize(decoder.conv_descriptor_b(decoder.relu(decoder.conv_descriptor_a(encoded))), dim=1)
    height, width = (CELL * side for side in cells.shape[2:])
    first = CELL / 2 - 0.5
    coordinates = [(pixels - first) / (side - CELL / 2 - 0.5) * 2 - 1 for pixels, side in ((x, width), (y, height))]
    grid = torch.stack(coordinates, dim=-1)[:, None]
    sampled = torch.nn.functional.grid_sample(cells, grid, mode="bilinear", align_corners=True)
    return normalize(sampled[:, :, 0], dim=1).transpose(1, 2)
