"""Models of depth for images of any size (modeling_dpt, modeling_depth_pro, transformers 5.23)."""

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


def depth_estimation_output(
    self: Any,
    pixel_values: Tensor,
    labels: Any = None,  # noqa: ARG001 - of training alone
    **_: Any,
) -> dict[str, Tensor]:
    """For DPTForDepthEstimation.forward."""
    return {"predicted_depth": self.head(neck_features(self, self.backbone, pixel_values))}


def semantic_segmentation_output(
    self: Any,
    pixel_values: Any = None,
    labels: Any = None,  # noqa: ARG001 - of training alone
    **_: Any,
) -> dict[str, Tensor]:
    """For DPTForSemanticSegmentation.forward."""
    return {"logits": self.head(neck_features(self, None, pixel_values))}


def neck_features(self: Any, backbone: Any, pixel_values: Tensor) -> Any:
    """The output of the neck for the feature maps of the backbone, or of the model's own encoder if it has none."""
    patch_size = (self.config if backbone is None else backbone.config).patch_size
    height, width = pixel_values.shape[-2:]
    if backbone is not None:
        feature_maps = backbone.forward_with_filtered_kwargs(pixel_values).feature_maps
    else:
        feature_maps = selected_hidden_states(
            self.config, self.dpt(pixel_values, output_hidden_states=True, return_dict=True)
        )
    return self.neck(feature_maps, height // patch_size, width // patch_size)


def selected_hidden_states(config: Any, outputs: Any) -> list[Tensor]:
    """The hidden states that `backbone_out_indices` selects. In a hybrid, the first come from its convolutions."""
    convolutional = list(outputs.intermediate_activations) if config.is_hybrid else []
    indices = config.backbone_out_indices[len(convolutional) :]
    return convolutional + [state for index, state in enumerate(outputs.hidden_states[1:]) if index in indices]
