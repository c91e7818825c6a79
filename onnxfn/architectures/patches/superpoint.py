"""SuperPoint on all images of a batch at once (modeling_superpoint, transformers 5.23).

The model goes through a batch image by image, and finds in each as many keypoints as there are; the rest is padding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CELL = 8
"""How many pixels, down and across, one vector of the encoder sees."""


def keypoint_detection_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For SuperPointForKeypointDetection.forward: the same keypoints in the same order."""
    return padded_keypoints(self, pixel_values, 0, **options)


def padded_keypoints(self: Any, pixel_values: Tensor, least: int, **options: Any) -> Any:
    """What SuperPoint gives, with room for `least` keypoints of each image, also where none has one."""
    from transformers.models.superpoint.modeling_superpoint import SuperPointKeypointDescriptionOutput

    height, width = pixel_values.shape[2:]
    encoded = self.encoder(pixel_values[:, :1], output_hidden_states=options.get("output_hidden_states"))
    scores = self.keypoint_decoder._get_pixel_scores(encoded[0])
    columns = scores.shape[2]
    places, mask = _ordered(scores.flatten(1), _chosen(self.keypoint_decoder, scores), self.keypoint_decoder, least)
    rows = places // columns
    across, down = (one.to(scores.dtype) for one in (places - rows * columns, rows))
    descriptors = _sampled(self.descriptor_decoder, encoded[0], across, down)
    keypoints = torch.stack((across / width, down / height), dim=-1)
    return SuperPointKeypointDescriptionOutput(
        keypoints=(keypoints * mask[..., None]).float(),
        scores=(scores.flatten(1).gather(1, places) * mask).float(),
        descriptors=(descriptors * mask[..., None]).float(),
        mask=mask.int(),
        hidden_states=encoded.hidden_states,
    )


def count_as_size(count: Tensor, least: int) -> int:
    """A count as a size, of which no more is known than that it is at least so much."""
    size: Any = count.item()
    torch._check(size >= least)
    made: int = size
    return made


def _chosen(decoder: Any, scores: Tensor) -> Tensor:
    """`[batch, pixels]`: which are keypoints; the model removes those at the top and at the left, no others."""
    rows, columns = scores.shape[1:]
    border = decoder.border_removal_distance
    inside = (torch.arange(rows)[:, None] >= border) & (torch.arange(columns) >= border)
    return ((scores > decoder.keypoint_threshold) & inside).flatten(1)


def _ordered(scores: Tensor, chosen: Tensor, decoder: Any, least: int) -> tuple[Tensor, Tensor]:
    """`[batch, longest]`: where the keypoints of each image are, and whether there is one.

    They come row by row, or the best first where there are more than the model is allowed.
    """
    counts = chosen.sum(1)
    pixels = chosen.shape[1]
    kept = counts if decoder.max_keypoints < 0 else counts.clamp(max=decoder.max_keypoints)
    longest = count_as_size(kept.max().clamp(min=least), least)
    torch._check(longest <= pixels)
    places = torch.arange(pixels, 0, -1)
    by_row = torch.topk(torch.where(chosen, places, 0), longest).indices
    mask = torch.arange(longest) < kept[:, None]
    if decoder.max_keypoints < 0:
        return by_row, mask
    by_score = torch.topk(torch.where(chosen, scores, -torch.inf), longest).indices
    return torch.where((counts > decoder.max_keypoints)[:, None], by_score, by_row), mask


def _sampled(decoder: Any, encoded: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """`[batch, longest, size]`: descriptors of unit length at these pixels."""
    normalize = torch.nn.functional.normalize
    cells = normalize(decoder.conv_descriptor_b(decoder.relu(decoder.conv_descriptor_a(encoded))), dim=1)
    height, width = (CELL * side for side in cells.shape[2:])
    first = CELL / 2 - 0.5
    placed = [(one - first) / (side - CELL / 2 - 0.5) * 2 - 1 for one, side in ((across, width), (down, height))]
    grid = torch.stack(placed, dim=-1)[:, None]
    sampled = torch.nn.functional.grid_sample(cells, grid, mode="bilinear", align_corners=True)
    return normalize(sampled[:, :, 0], dim=1).transpose(1, 2)
