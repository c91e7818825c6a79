"""Depth Pro for batches of any size (modeling_depth_pro, transformers 5.23)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def patch_feature_maps(self: Any, pixel_values: Tensor) -> list[Tensor]:
    """For DepthProPatchEncoder.forward, which takes `len` of the patches. `len` returns an int and fixes the batch."""
    from transformers.models.depth_pro import modeling_depth_pro as module

    batch, _, height, width = pixel_values.shape
    patches = [_patches(module, self, pixel_values, level) for level in range(self.n_scaled_images)]
    encodings = self.model(
        torch.cat(patches[::-1]), output_hidden_states=self.n_intermediate_hooks > 0, return_dict=True
    )
    last = encodings.last_hidden_state.split([tensor.shape[0] for tensor in patches[::-1]])[::-1]
    finest = self.n_scaled_images - 1
    hidden_states = [
        *enumerate(last),
        *((finest, encodings.hidden_states[hook + 1]) for hook in self.intermediate_hook_ids),
    ]
    coarsest_scale = 2 ** int(math.log2(width / self.out_size))
    return [
        module.reconstruct_feature_maps(
            states,
            batch_size=batch,
            padding=int(self.merge_padding_value / self.scaled_images_ratios[level]),
            output_size=(height // coarsest_scale * 2**level, width // coarsest_scale * 2**level),
        )
        for level, states in hidden_states
    ]


def _patches(module: Any, encoder: Any, pixel_values: Tensor, level: int) -> Tensor:
    """The patches of the images, scaled by the ratio of this level."""
    ratio = encoder.scaled_images_ratios[level]
    images = interpolate(pixel_values, scale_factor=ratio, mode="bilinear", align_corners=False)
    patches: Tensor = module.split_to_patches(
        images, patch_size=encoder.config.patch_size, overlap_ratio=encoder.scaled_images_overlap_ratios[level]
    )
    return patches
