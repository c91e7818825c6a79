"""The features of all images in one row, without a loop over images that have one size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pixtral_states(self: Any, pixel_values: Tensor, image_sizes: Any = None, **arguments: Any) -> Any:
    """For PixtralVisionModel.forward (modeling_pixtral, transformers 5.23): each image attends to itself.

    Without sizes, all images have that of the tensor; with them, each is cut to its own, as in the original.
    """
    from transformers.utils.output_capturing import capture_outputs

    return capture_outputs(_pixtral_states)(self, pixel_values, image_sizes, **arguments)


def _pixtral_states(self: Any, pixel_values: Tensor, image_sizes: Any, **arguments: Any) -> Any:
    embeds = self.patch_conv(pixel_values.to(dtype=self.patch_conv.weight.dtype))
    parts = [embeds] if image_sizes is None else _cut(embeds, image_sizes, self.patch_size)
    states = self.ln_pre(torch.cat([part.flatten(2).transpose(1, 2).flatten(0, 1) for part in parts])[None])
    places = torch.cat([_places(part, first) for first, part in enumerate(parts)])
    image = places[:, 0]
    lowest = torch.finfo(states.dtype).min
    mask = torch.where(image[:, None] == image, 0.0, lowest).to(states.dtype)[None, None]
    rotations = self.patch_positional_embedding(states, places[:, 1:])
    return self.transformer(states, attention_mask=mask, position_embeddings=rotations, **arguments)


def _cut(embeds: Tensor, image_sizes: Any, side: int) -> list[Tensor]:
    """The patches of each image that are no padding, `[1, size, height, width]`."""
    return [
        image[None, :, : height // side, : width // side]
        for image, (height, width) in zip(embeds, image_sizes, strict=True)
    ]


def _places(part: Tensor, first: int) -> Tensor:
    """The image, the row and the column of each patch of images of one size, `[patches, 3]`."""
    count, _, height, width = part.shape
    axes = [torch.arange(size, device=part.device) for size in (count, height, width)]
    return torch.stack(torch.meshgrid(axes[0] + first, *axes[1:], indexing="ij"), dim=-1).flatten(0, 2)


def step3p7_features(
    self: Any, pixel_values: Tensor, pixel_values_local: Any = None, num_local_patches: Any = None, **arguments: Any
) -> Any:
    """For Step3p7Model.get_image_features (modeling_step3p7, transformers 5.23): images without local views.

    ValueError for local views, whose numbers are a list of Python.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPooling

    if pixel_values_local is not None or num_local_patches is not None:
        raise ValueError("local views of images (pixel_values_local, num_local_patches) are in no graph of Step3p7")
    states = self.vision_model(pixel_values, **arguments).last_hidden_state
    features = self.multi_modal_projector(states)
    return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=[features.flatten(0, 1)])
