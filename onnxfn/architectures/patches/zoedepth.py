"""ZoeDepth with any number of depth ranges (modeling_zoedepth, transformers 5.23)."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def reassembled_features(self: Any, hidden_states: list[Tensor], patch_height: Any, patch_width: Any) -> list[Tensor]:
    """For ZoeDepthReassembleStage.forward, which concatenates the stages and splits them by the dynamic batch size."""
    features = []
    for states, project, layer in zip(hidden_states, self.readout_projects, self.layers, strict=True):
        patches = states[:, 1:]
        projected = project(torch.cat((patches, states[:, :1].expand_as(patches)), dim=-1))
        features.append(layer(projected.transpose(1, 2).unflatten(2, (patch_height, patch_width))))
    return features


def metric_depth(
    self: Any,
    outconv_activation: Tensor,
    bottleneck: Tensor,
    feature_blocks: Any,
    relative_depth: Any,  # noqa: ARG001
) -> Any:
    """For ZoeDepthMultipleMetricDepthEstimationHeads.forward, which branches on the likeliest range of the batch.

    Here the depths of all ranges are computed, and those of the likeliest range are selected.
    """
    features = self.conv2(bottleneck)
    logits = self.mlp_classifier(self.patch_transformer(features)[:, 0])
    depths = [
        _depth_of_range(self, range_, outconv_activation, features, feature_blocks)
        for range_ in self.bin_configurations
    ]
    likeliest = logits.sum(dim=0, keepdim=True).argmax(-1)
    return torch.stack(depths).index_select(0, likeliest)[0], logits


def _depth_of_range(self: Any, range_: Any, last: Tensor, features: Tensor, feature_blocks: Any) -> Tensor:
    """Depths within one range of `bin_configurations`."""
    name, least, most = range_["name"], range_["min_depth"], range_["max_depth"]
    centers = bins = self.seed_bin_regressors[name](features)[1]
    if self.bin_centers_type in ("normed", "hybrid2"):
        bins = (centers - least) / (most - least)
    embedding = self.seed_projector(features)
    for projector, attractor, block in zip(self.projectors, self.attractors[name], feature_blocks, strict=False):
        next_embedding = projector(block)
        bins, centers = _attracted(attractor, next_embedding, bins, embedding)
        embedding = next_embedding
    size = last.shape[-2:]
    centers, embedding = (
        interpolate(tensor, size, mode="bilinear", align_corners=True) for tensor in (centers, embedding)
    )
    probabilities = self.conditional_log_binomial[name](last, embedding)
    return (probabilities * centers).sum(dim=1, keepdim=True)


def _attracted(attractor: Any, features: Tensor, bins: Tensor, embedding: Tensor) -> Any:
    """The new bins and centers of an attractor layer, computed for all of its points at once, not in a loop.

    A loop has six nodes for each point, in a graph with up to 58 of them. The layers with several points are those for
    small features, so that the larger tensors take little memory.
    """
    at_once = copy(attractor)
    at_once.memory_efficient = False
    return type(attractor).forward(at_once, features, bins, embedding, interpolate=True)
