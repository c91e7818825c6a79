"""ZoeDepth of images of any size, of one range of depths or several (modeling_zoedepth, modeling_beit, 5.23).

A batch is of the one range that it is likeliest of as a whole: both are computed, and one is taken.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def relative_position_bias(self: Any, window_size: tuple[int, int], *_: Any, **__: Any) -> Tensor:
    """For BeitRelativePositionBias.forward, which writes into an index: `[1, heads, places + 1, places + 1]`."""
    rows, columns = window_size
    old_rows, old_columns = (2 * side - 1 for side in self.window_size)
    told = self.relative_position_bias_table
    to_place, to_first, alone = (told[place] for place in (-3, -2, -1))
    grid = told[:-3].reshape(1, old_columns, old_rows, -1).permute(0, 3, 1, 2)
    table = interpolate(grid, size=(2 * rows - 1, 2 * columns - 1), mode="bilinear").flatten(2)[0]
    down, across = (torch.arange(side)[:, None] - torch.arange(side) + side - 1 for side in window_size)
    index = down[:, None, :, None] * (2 * columns - 1) + across[:, None]
    places = rows * columns
    between = table[:, index.reshape(places, places)]
    top = torch.cat((alone[:, None], to_place[:, None].expand(-1, places)), dim=1)
    rest = torch.cat((to_first[:, None, None].expand(-1, places, 1), between), dim=2)
    return torch.cat((top[:, None], rest), dim=1)[None]


def reassembled_features(self: Any, hidden_states: list[Tensor], patch_height: Any, patch_width: Any) -> list[Tensor]:
    """For ZoeDepthReassembleStage.forward, which splits what it joined by a size that moves."""
    made = []
    for states, project, layer in zip(hidden_states, self.readout_projects, self.layers, strict=True):
        places = states[:, 1:]
        known = project(torch.cat((places, states[:, :1].expand_as(places)), dim=-1))
        made.append(layer(known.transpose(1, 2).unflatten(2, (patch_height, patch_width))))
    return made


def metric_depth(
    self: Any,
    outconv_activation: Tensor,
    bottleneck: Tensor,
    feature_blocks: Any,
    relative_depth: Any,  # noqa: ARG001
) -> Any:
    """For ZoeDepthMultipleMetricDepthEstimationHeads.forward, which takes a branch by what the batch shows."""
    seen = self.conv2(bottleneck)
    logits = self.mlp_classifier(self.patch_transformer(seen)[:, 0])
    depths = [_deep(self, one, outconv_activation, seen, feature_blocks) for one in self.bin_configurations]
    likeliest = logits.sum(dim=0, keepdim=True).argmax(-1)
    return torch.stack(depths).index_select(0, likeliest)[0], logits


def _deep(self: Any, range_: Any, last: Tensor, seen: Tensor, blocks: Any) -> Tensor:
    """Depths within one range."""
    name, low, high = range_["name"], range_["min_depth"], range_["max_depth"]
    centers = before = self.seed_bin_regressors[name](seen)[1]
    if self.bin_centers_type in ("normed", "hybrid2"):
        before = (centers - low) / (high - low)
    embedding = self.seed_projector(seen)
    for projector, attractor, block in zip(self.projectors, self.attractors[name], blocks, strict=False):
        own = projector(block)
        before, centers = attractor(own, before, embedding, interpolate=True)
        embedding = own
    sides = last.shape[-2:]
    centers, embedding = (interpolate(one, sides, mode="bilinear", align_corners=True) for one in (centers, embedding))
    shares = self.conditional_log_binomial[name](last, embedding)
    return (shares * centers).sum(dim=1, keepdim=True)
