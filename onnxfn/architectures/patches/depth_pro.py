"""Depth Pro on any number of images at once (modeling_depth_pro, transformers 5.23)."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor


def patch_feature_maps(self: Any, pixel_values: Tensor) -> list[Tensor]:
    """For DepthProPatchEncoder.forward, which asks Python how many patches there are, so that it fixes the batch."""
    import torch
    from transformers.models.depth_pro import modeling_depth_pro as module

    batch, _, height, width = pixel_values.shape
    scales = [_patches(module, self, pixel_values, level) for level in range(self.n_scaled_images)]
    told = self.model(torch.cat(scales[::-1]), output_hidden_states=self.n_intermediate_hooks > 0, return_dict=True)
    last = told.last_hidden_state.split([one.shape[0] for one in scales[::-1]])[::-1]
    finest = self.n_scaled_images - 1
    seen = [*enumerate(last), *((finest, told.hidden_states[hook + 1]) for hook in self.intermediate_hook_ids)]
    least = 2 ** int(math.log2(width / self.out_size))
    return [
        module.reconstruct_feature_maps(
            states,
            batch_size=batch,
            padding=int(self.merge_padding_value / self.scaled_images_ratios[level]),
            output_size=(height // least * 2**level, width // least * 2**level),
        )
        for level, states in seen
    ]


def _patches(module: Any, encoder: Any, pixel_values: Tensor, level: int) -> Tensor:
    """The patches that a scaled image is looked at in."""
    from torch.nn.functional import interpolate

    ratio = encoder.scaled_images_ratios[level]
    image = interpolate(pixel_values, scale_factor=ratio, mode="bilinear", align_corners=False)
    patches: Tensor = module.split_to_patches(
        image, patch_size=encoder.config.patch_size, overlap_ratio=encoder.scaled_images_overlap_ratios[level]
    )
    return patches
