"""Projectors that merge the patches of each block of an image, without loops over the images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.patches.packed_vision import patches_of


def paddleocr_features(self: Any, image_features: Tensor, image_grid_thw: Tensor) -> Tensor:
    """For PaddleOCRProjector.forward (transformers 5.23), which loops over the images."""
    counts = image_grid_thw.prod(-1)
    blocks = blocks_of(image_grid_thw, self.merge_kernel_size[0], counts.cumsum(0) - counts)
    merged = self.pre_norm(image_features)[blocks].flatten(1)
    return self.linear_2(self.act(self.linear_1(merged)))


def lfm2_vl_features(
    self: Any, pixel_values: Tensor, spatial_shapes: Tensor, pixel_attention_mask: Tensor, **_: Any
) -> Any:
    """For Lfm2VlModel.get_image_features (transformers 5.23), which loops over the images."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    states = self.vision_tower(
        pixel_values=pixel_values,
        spatial_shapes=spatial_shapes,
        pixel_attention_mask=pixel_attention_mask,
        return_dict=True,
    ).last_hidden_state
    count, length, _ = states.shape
    grids = torch.cat([torch.ones_like(spatial_shapes[:, :1]), spatial_shapes], dim=1)
    starts = torch.arange(count, device=states.device) * length
    projector = self.multi_modal_projector
    merged = states.flatten(0, 1)[blocks_of(grids, projector.factor, starts)].flatten(1)
    merged = projector.layer_norm(merged) if projector.use_layer_norm else merged
    features = projector.linear_2(projector.act(projector.linear_1(merged)))
    return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=features)


def minicpm_features(self: Any, hidden_states: Tensor, target_sizes: Tensor) -> Tensor:
    """For the forward of MiniCPM-V's merger (transformers 5.23): rounds of merges, which loop over the images."""
    states = hidden_states[0]
    for mlp in self.mlp:
        grids = torch.cat([torch.ones_like(target_sizes[:, :1]), target_sizes], dim=1)
        counts = grids.prod(-1)
        merge = self.merge_kernel_size[0]
        states = mlp(states[blocks_of(grids, merge, counts.cumsum(0) - counts)].flatten(1))
        target_sizes = target_sizes // merge
    return states


def blocks_of(grid_thw: Tensor, merge: int, starts: Tensor) -> Tensor:
    """The indices of the patches of each block, row by row: `[blocks, merge * merge]`.

    Args:
        grid_thw: The frames, the height and the width of each image in patches, `[images, 3]`.
        merge: The height and the width of a block.
        starts: The index of the first patch of each image, `[images]`.
    """
    cells = patches_of(torch.cat([grid_thw[:, :1], grid_thw[:, 1:] // merge], dim=1))
    frame = cells.height * cells.width
    row, column = cells.within % frame // cells.width, cells.within % frame % cells.width
    width = grid_thw[:, 2][cells.image]
    frame_start = starts[cells.image] + cells.within // frame * grid_thw[:, 1][cells.image] * width
    inner = torch.arange(merge * merge, device=grid_thw.device)
    rows = row[:, None] * merge + inner // merge
    return frame_start[:, None] + rows * width[:, None] + column[:, None] * merge + inner % merge
