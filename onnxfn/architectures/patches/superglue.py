"""SuperGlue and LightGlue on any number of keypoints, none too (transformers 5.23).

The models ask whether there are keypoints at all, which a graph need not: there is always room for one, and in the end
what was room alone is cut off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.superpoint import count_as_size, padded_keypoints

OUTPUT_OPTIONS = ("output_attentions", "output_hidden_states")


def superglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For SuperGlueForKeypointMatching.forward."""
    keypoints, scores, descriptors, mask = image_pair_keypoints(self.keypoint_detector, pixel_values)
    matches, matching_scores, states, attentions = self._match_image_pair(
        *(pixel_coordinates(keypoints, pixel_values), descriptors, scores, *pixel_values.shape[3:]),
        **{name: options.get(name) for name in OUTPUT_OPTIONS},
        mask=mask,
    )
    told = {"matches": matches, "matching_scores": matching_scores, "keypoints": keypoints, "mask": mask}
    return {**trimmed_to_keypoints(told, mask), "hidden_states": states, "attentions": attentions}


def lightglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For LightGlueForKeypointMatching.forward, where nothing is stopped early and nothing dropped."""
    keypoints, _, descriptors, mask = image_pair_keypoints(self.keypoint_detector, pixel_values)
    matches, matching_scores, prune, states, attentions = self._match_image_pair(
        *(pixel_coordinates(keypoints, pixel_values), descriptors, *pixel_values.shape[3:]),
        **{name: options.get(name) for name in OUTPUT_OPTIONS},
        mask=mask,
    )
    pairs = {"matches": matches.reshape(mask.shape), "matching_scores": matching_scores.reshape(mask.shape)}
    told = {**pairs, "keypoints": keypoints, "prune": prune, "mask": mask}
    return {**trimmed_to_keypoints(told, mask), "hidden_states": states, "attentions": attentions}


def image_pair_keypoints(detector: Any, pixel_values: Tensor) -> tuple[Tensor, ...]:
    """Keypoints, scores, descriptors and mask `[batch, 2, keypoints, ...]` of pairs of images."""
    found = padded_keypoints(detector, pixel_values.flatten(0, 1), 1)
    pairs = (pixel_values.shape[0], 2)
    real = (found.keypoints, found.scores, found.descriptors)
    return (*(one.to(pixel_values).unflatten(0, pairs) for one in real), found.mask.unflatten(0, pairs))


def pixel_coordinates(keypoints: Tensor, pixel_values: Tensor) -> Tensor:
    """Keypoints in pixels, across and down."""
    height, width = pixel_values.shape[3:]
    return torch.stack((keypoints[..., 0] * width, keypoints[..., 1] * height), dim=-1)


def trimmed_to_keypoints(told: dict[str, Tensor], mask: Tensor) -> dict[str, Tensor]:
    """What is told of each keypoint there is room for, of as many as the fullest image has."""
    fullest = count_as_size(mask.sum(-1).max(), 0)
    torch._check(fullest <= mask.shape[2])
    return {name: one[:, :, :fullest] for name, one in told.items()}
