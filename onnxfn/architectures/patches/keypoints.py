"""Keypoints of all images of a batch at once, for any number of them, also 0 (transformers 5.23)."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.torch_names import torch_name

CELL = 8
"""Height and width in pixels of the cell that one vector of the encoder describes."""


def keypoint_detection_output(self: Any, pixel_values: Tensor, *, least: int = 0, **options: Any) -> Any:
    """For SuperPointForKeypointDetection.forward: its keypoints in order, padded to at least `least` per image."""
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
    """The value of a tensor as a symbolic size. torch.export knows only a lower bound of it, `least`."""
    size: int = count.item()
    torch_name("check")(size >= least)
    return size


def _is_keypoint(decoder: Any, scores: Tensor) -> Tensor:
    """True for keypoints, `[batch, pixels]`. As in the original, only the top and left borders are removed."""
    rows, columns = scores.shape[1:]
    border = decoder.border_removal_distance
    inside = (torch.arange(rows)[:, None] >= border) & (torch.arange(columns) >= border)
    return ((scores > decoder.keypoint_threshold) & inside).flatten(1)


def _indices_and_mask(scores: Tensor, is_keypoint: Tensor, decoder: Any, least: int) -> tuple[Tensor, Tensor]:
    """The pixel index of each keypoint, and which of them hold one: `[batch, largest number of keypoints]`."""
    # Keypoints are in row-major order; in descending order of the score if there are more than `max_keypoints`.
    counts = is_keypoint.sum(1)
    pixels = is_keypoint.shape[1]
    limited = counts if decoder.max_keypoints < 0 else counts.clamp(max=decoder.max_keypoints)
    largest = count_as_size(limited.max().clamp(min=least), least)
    torch_name("check")(largest <= pixels)
    by_index = torch.topk(torch.where(is_keypoint, torch.arange(pixels, 0, -1), 0), largest).indices
    mask = torch.arange(largest) < limited[:, None]
    if decoder.max_keypoints < 0:
        return by_index, mask
    by_score = torch.topk(torch.where(is_keypoint, scores, -torch.inf), largest).indices
    return torch.where((counts > decoder.max_keypoints)[:, None], by_score, by_index), mask


def _descriptors(decoder: Any, encoded: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Descriptors of unit length at these pixels, `[batch, keypoints, size]`."""
    cells = functional.normalize(decoder.conv_descriptor_b(decoder.relu(decoder.conv_descriptor_a(encoded))), dim=1)
    height, width = (CELL * side for side in cells.shape[2:])
    first = CELL / 2 - 0.5
    coordinates = [(pixels - first) / (side - CELL / 2 - 0.5) * 2 - 1 for pixels, side in ((x, width), (y, height))]
    grid = torch.stack(coordinates, dim=-1)[:, None]
    sampled = functional.grid_sample(cells, grid, mode="bilinear", align_corners=True)
    return functional.normalize(sampled[:, :, 0], dim=1).transpose(1, 2)


def superglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For SuperGlueForKeypointMatching.forward."""
    keypoints, scores, descriptors, mask = _keypoints_of_pairs(self.keypoint_detector, pixel_values)
    return _matched(self, pixel_values, keypoints, mask, descriptors, scores, **options)


def lightglue_output(self: Any, pixel_values: Tensor, **options: Any) -> Any:
    """For LightGlueForKeypointMatching.forward without early stopping and without pruning of keypoints."""
    keypoints, _, descriptors, mask = _keypoints_of_pairs(self.keypoint_detector, pixel_values)
    return _matched(self, pixel_values, keypoints, mask, descriptors, **options)


def _keypoints_of_pairs(detector: Any, pixel_values: Tensor) -> tuple[Tensor, ...]:
    """Keypoints, scores, descriptors and mask of image pairs: `[batch, 2, keypoints, ...]`."""
    outputs = keypoint_detection_output(detector, pixel_values.flatten(0, 1), least=1)
    pairs = (pixel_values.shape[0], 2)
    floats = (outputs.keypoints, outputs.scores, outputs.descriptors)
    return (*(tensor.to(pixel_values).unflatten(0, pairs) for tensor in floats), outputs.mask.unflatten(0, pairs))


def _matched(
    self: Any, pixel_values: Tensor, keypoints: Tensor, mask: Tensor, *facts: Tensor, **options: Any
) -> dict[str, Any]:
    """The outputs of a model that matches keypoints, without empty places; LightGlue also gives `prune`."""
    height, width = pixel_values.shape[3:]
    pixels = torch.stack((keypoints[..., 0] * width, keypoints[..., 1] * height), dim=-1)
    wanted = {name: options.get(name) for name in ("output_attentions", "output_hidden_states")}
    *tensors, hidden_states, attentions = self._match_image_pair(pixels, *facts, height, width, mask=mask, **wanted)
    named = dict(zip(("matches", "matching_scores", "prune"), tensors, strict=False))
    largest = count_as_size(mask.sum(-1).max(), 0)
    torch_name("check")(largest <= mask.shape[2])
    of_pairs = {
        name: (tensor.reshape(mask.shape) if tensor.ndim < mask.ndim else tensor)[:, :, :largest]
        for name, tensor in {**named, "keypoints": keypoints, "mask": mask}.items()
    }
    return {**of_pairs, "hidden_states": hidden_states, "attentions": attentions}


def aggregated_attention(
    self: Any, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, **options: Any
) -> Tensor:
    """For EfficientLoFTRAggregatedAttention.forward."""
    queries, keys = self.aggregation(hidden_states, encoder_hidden_states)
    rows, columns = queries.shape[1:3]
    attention_output, _ = self.attention(queries.flatten(1, 2), keys.flatten(1, 2), **options)
    image = attention_output.transpose(1, 2).unflatten(2, (rows, columns))
    resized = functional.interpolate(image, size=hidden_states.shape[2:], mode="bilinear", align_corners=False)
    return hidden_states + self.mlp(torch.cat((hidden_states, resized), dim=1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


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
