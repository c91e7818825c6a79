"""SuperGlue and LightGlue for any number of keypoints, also 0.

The originals are in modeling_superglue and modeling_lightglue (transformers 5.23). They branch on whether there are
keypoints. Here tensors have room for at least one keypoint per image, and the outputs are sliced to the actual number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.superpoint import count_as_size, padded_keypoints
from onnxfn.architectures.private.torch_names import torch_name

OUTPUT_OPTIONS = ("output_attentions", "output_hidden_states")


def superglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For SuperGlueForKeypointMatching.forward."""
    keypoints, scores, descriptors, mask = image_pair_keypoints(self.keypoint_detector, pixel_values)
    matches, matching_scores, hidden_states, attentions = self._match_image_pair(
        *(pixel_coordinates(keypoints, pixel_values), descriptors, scores, *pixel_values.shape[3:]),
        **{name: options.get(name) for name in OUTPUT_OPTIONS},
        mask=mask,
    )
    outputs = {"matches": matches, "matching_scores": matching_scores, "keypoints": keypoints, "mask": mask}
    return {**trimmed_to_keypoints(outputs, mask), "hidden_states": hidden_states, "attentions": attentions}


def lightglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For LightGlueForKeypointMatching.forward without early stopping and without pruning of keypoints."""
    keypoints, _, descriptors, mask = image_pair_keypoints(self.keypoint_detector, pixel_values)
    matches, matching_scores, prune, hidden_states, attentions = self._match_image_pair(
        *(pixel_coordinates(keypoints, pixel_values), descriptors, *pixel_values.shape[3:]),
        **{name: options.get(name) for name in OUTPUT_OPTIONS},
        mask=mask,
    )
    pairs = {"matches": matches.reshape(mask.shape), "matching_scores": matching_scores.reshape(mask.shape)}
    outputs = {**pairs, "keypoints": keypoints, "prune": prune, "mask": mask}
    return {**trimmed_to_keypoints(outputs, mask), "hidden_states": hidden_states, "attentions": attentions}


def image_pair_keypoints(detector: Any, pixel_values: Tensor) -> tuple[Tensor, ...]:
    """Keypoints, scores, descriptors and mask of image pairs: `[batch, 2, keypoints, ...]`."""
    outputs = padded_keypoints(detector, pixel_values.flatten(0, 1), 1)
    pairs = (pixel_values.shape[0], 2)
    floats = (outputs.keypoints, outputs.scores, outputs.descriptors)
    return (*(tensor.to(pixel_values).unflatten(0, pairs) for tensor in floats), outputs.mask.unflatten(0, pairs))


def pixel_coordinates(keypoints: Tensor, pixel_values: Tensor) -> Tensor:
    """Relative coordinates (x, y) of keypoints, converted to pixels."""
    height, width = pixel_values.shape[3:]
    return torch.stack((keypoints[..., 0] * width, keypoints[..., 1] * height), dim=-1)


def trimmed_to_keypoints(outputs: dict[str, Tensor], mask: Tensor) -> dict[str, Tensor]:
    """The outputs, sliced along the axis of keypoints to the largest number of keypoints of any image."""
    largest = count_as_size(mask.sum(-1).max(), 0)
    torch_name("check")(largest <= mask.shape[2])
    return {name: tensor[:, :, :largest] for name, tensor in outputs.items()}
