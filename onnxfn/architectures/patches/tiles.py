"""Images as tiles, some of them padding, and images of several sizes, without loops over the images.

The rows of an image in tiles are those of the whole image, then those of its tiles line by line, with a vector for a
new line after each. Images without tiles have the rows of the whole image and one new line.

Source: "LLaVA-NeXT: Improved reasoning, OCR, and world knowledge", 2024; "LLaVA-OneVision", arXiv 2408.03326.
"""

from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.output_capturing import capture_outputs

from onnxfn.architectures.patches.packed_vision import members
from onnxfn.specs.errors import InvalidSpec


def smolvlm_features(self: Any, pixel_values: Tensor, pixel_attention_mask: Tensor | None = None, **_: Any) -> Any:
    """For get_image_features of SmolVLM, ModernVBERT and UltraVBERT, which remove padding first: here at the end."""
    # The first tile counts if all are padding. Without a mask all pixels count.
    pixels = pixel_values.flatten(0, 1)
    is_tile = (pixels != 0).flatten(1).any(-1)
    counts = pixels[:, 0] == pixels[:, 0] if pixel_attention_mask is None else pixel_attention_mask.flatten(0, 1).bool()
    side = self.config.vision_config.patch_size
    # padding has a mask of ones: a softmax over no patch at all is NaN
    squares = (counts | ~is_tile[:, None, None]).unfold(1, side, side).unfold(2, side, side)
    mask = squares.any(-1).any(-1)
    states = self.vision_model(pixel_values=pixels, patch_attention_mask=mask, return_dict=True).last_hidden_state
    features = self.connector(states)
    is_first = torch.arange(is_tile.shape[0], device=is_tile.device) == 0
    is_kept = is_tile | (is_first & ~is_tile.any())
    rows = is_kept[:, None].expand(-1, features.shape[1]).flatten()
    return BaseModelOutputWithPooling(pooler_output=features.flatten(0, 1)[rows])


LARGEST_RATIO = 1.1
"""The factor by which sides of an image may exceed the limit before the image is made smaller."""


def tiled_features(
    self: Any,
    pixel_values: Tensor,
    image_sizes: Tensor,
    vision_feature_layer: int | list[int] | None = None,
    vision_feature_select_strategy: str | None = None,
    vision_aspect_ratio: str | None = None,
    batch_num_images: Any = None,  # the number of tiles says which images are several of one text
    **_: Any,
) -> Any:
    """For get_image_features of LLaVA-NeXT and LLaVA-OneVision: tiles `[images, tiles, channels, height, width]`."""
    count, tiles, *_ = pixel_values.shape
    states = self.vision_tower(pixel_values.flatten(0, 1), output_hidden_states=True, return_dict=True).hidden_states
    layers = self.config.vision_feature_layer if vision_feature_layer is None else vision_feature_layer
    strategy = vision_feature_select_strategy or self.config.vision_feature_select_strategy
    features = self.multi_modal_projector(_chosen(states, layers, strategy)).unflatten(0, (count, tiles))
    side = self.config.vision_config.image_size // self.config.vision_config.patch_size
    grids = best_grids(image_sizes, self.config.image_grid_pinpoints, self.config.vision_config.image_size)
    areas = unpadded_areas(image_sizes, grids * side)
    aspect_ratio = str(vision_aspect_ratio or getattr(self.config, "vision_aspect_ratio", ""))
    shown = _shrunk(areas, side, aspect_ratio)
    # without tiles, an empty line for each image; the graph counts tiles: to compare a size would fix it in the trace
    has_tiles = torch.ones_like(pixel_values[0, :, 0, 0, 0]).sum() > 1
    height, width = torch.where(has_tiles, shown.height, 1), torch.where(has_tiles, shown.width, 0)
    shown = Areas(shown.top, shown.left, height, width)
    rows = _rows(features, grids, areas, shown, self.image_newline, is_scaled=bool(aspect_ratio))
    return BaseModelOutputWithPooling(pooler_output=rows)


@frozen(eq=False)
class Areas:
    """The area of each image in its tiles, in patches: `[images]`."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def best_grids(sizes: Tensor, resolutions: list[list[int]], side: int) -> Tensor:
    """The number of tiles of `side` pixels in height and width of each image, as select_best_resolution chooses."""
    known = torch.tensor(resolutions, dtype=torch.float64, device=sizes.device)
    wanted = sizes.to(torch.float64)[:, None]
    scales = known / wanted
    downscaled = (wanted * torch.minimum(scales[..., :1], scales[..., 1:])).to(torch.int64)
    pixels = torch.minimum(downscaled[..., 0] * downscaled[..., 1], (sizes[:, 0] * sizes[:, 1])[:, None])
    # Most pixels of the image, then the smallest area, then the first resolution.
    areas = [height * width for height, width in resolutions]
    ranks = torch.tensor([area * len(areas) + order for order, area in enumerate(areas)], device=sizes.device)
    best = (pixels * (2 * max(areas) * len(areas)) - ranks).to(torch.float64).argmax(-1)
    return known.to(torch.int64)[best] // side


def unpadded_areas(sizes: Tensor, whole: Tensor) -> Areas:
    """The areas of images of these `sizes`, scaled to the middle of images of the sizes `whole`: see unpad_image."""
    (height, width), (full_height, full_width) = sizes.unbind(-1), whole.unbind(-1)
    is_wide = width * full_height > full_width * height
    top = torch.where(is_wide, (full_height - height * full_width // width) // 2, 0)
    left = torch.where(is_wide, 0, (full_width - width * full_height // height) // 2)
    return Areas(top, left, full_height - 2 * top, full_width - 2 * left)


def _chosen(states: tuple[Tensor, ...], layers: int | list[int], strategy: str) -> Tensor:
    """The states of these layers, without that of the class token if the strategy says so."""
    chosen = states[layers] if isinstance(layers, int) else torch.cat([states[layer] for layer in layers], dim=-1)
    return chosen[:, 1:] if strategy == "default" else chosen


def _shrunk(areas: Areas, side: int, aspect_ratio: str) -> Areas:
    """The areas that are shown: an image of more than `anyres_max_N` tiles is made smaller."""
    if not aspect_ratio:
        return areas
    most = int(aspect_ratio.rpartition("_")[2])
    ratio = (areas.height * areas.width / (most * side**2)).to(torch.float64).sqrt()
    ratio = torch.where(ratio > LARGEST_RATIO, ratio, 1.0)
    height, width = ((length / ratio).floor().to(torch.int64) for length in (areas.height, areas.width))
    return Areas(areas.top, areas.left, height, width)


def _rows(features: Tensor, grids: Tensor, areas: Areas, shown: Areas, newline: Tensor, *, is_scaled: bool) -> Tensor:
    """The rows of all images, `[rows, width]`, from features `[images, tiles, patches of a tile, width]`.

    The whole image is the first tile. `grids`: how many tiles each image has in height and width. `areas`: where each
    lies in its tiles. `shown`: the height and the width in which it is shown. `newline`: the vector for a new line.
    `is_scaled`: images may be shown smaller.
    """
    _, tiles, patches, _ = features.shape
    side = int(patches**0.5)
    image, within = members(patches + shown.height * (shown.width + 1))
    is_whole, offset = within < patches, within - patches
    columns = shown.width[image]
    row, column = offset // (columns + 1), offset % (columns + 1)
    is_end = (column == columns) & ~is_whole
    column = torch.minimum(column, columns - 1)
    start = image * tiles * patches

    def row_of(y: Tensor, x: Tensor) -> Tensor:
        y, x = y + areas.top[image], x + areas.left[image]
        tile = 1 + y // side * grids[:, 1][image] + x // side
        index = start + tile * patches + y % side * side + x % side
        index = torch.where(is_end, start, index)  # any row of the image: that of a new line may lie in no tile
        return features.flatten(0, 2)[torch.where(is_whole, start + within, index)]

    rows = _interpolated(row_of, row, column, image, areas, shown) if is_scaled else row_of(row, column)
    return torch.where(is_end[:, None], newline.to(rows.dtype), rows)


def _interpolated(row_of: Any, row: Tensor, column: Tensor, image: Tensor, areas: Areas, shown: Areas) -> Tensor:
    """The rows between the patches of images that are shown smaller: bilinear, as `interpolate` computes them."""
    (top, bottom, down) = _neighbors(row, areas.height[image], shown.height[image])
    (left, right, across) = _neighbors(column, areas.width[image], shown.width[image])
    upper = row_of(top, left) * (1 - across) + row_of(top, right) * across
    lower = row_of(bottom, left) * (1 - across) + row_of(bottom, right) * across
    return upper * (1 - down) + lower * down


def _neighbors(index: Tensor, length: Tensor, shown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two places in a length that an index in another length lies between, and how far it is from the first."""
    offset = ((index + 0.5) * (length / shown) - 0.5).clamp(min=0)
    first = torch.minimum(offset.floor().to(torch.int64), length - 1)
    second = torch.minimum(first + 1, length - 1)
    return first, second, (offset - first)[:, None]


def pixtral_states(self: Any, pixel_values: Tensor, image_sizes: Any = None, **arguments: Any) -> Any:
    """For PixtralVisionModel.forward: each image, cut to its own size if there are `image_sizes`, attends to itself."""
    return capture_outputs(_pixtral_states)(self, pixel_values, image_sizes, **arguments)


def _pixtral_states(self: Any, pixel_values: Tensor, image_sizes: Any, **arguments: Any) -> Any:
    embeds, side = self.patch_conv(pixel_values.to(dtype=self.patch_conv.weight.dtype)), self.patch_size
    sized = () if image_sizes is None else zip(embeds, image_sizes, strict=True)
    parts = [image[None, :, : height // side, : width // side] for image, (height, width) in sized] or [embeds]
    states = self.ln_pre(torch.cat([part.flatten(2).transpose(1, 2).flatten(0, 1) for part in parts])[None])
    positions = torch.cat([_positions(part, first) for first, part in enumerate(parts)])
    image = positions[:, 0]
    mask = torch.where(image[:, None] == image, 0.0, torch.finfo(states.dtype).min).to(states.dtype)[None, None]
    rotations = self.patch_positional_embedding(states, positions[:, 1:])
    return self.transformer(states, attention_mask=mask, position_embeddings=rotations, **arguments)


def _positions(part: Tensor, first: int) -> Tensor:
    """The image, the row and the column of each patch of images of one size, `[patches, 3]`."""
    count, _, height, width = part.shape
    images, rows, columns = (torch.arange(size, device=part.device) for size in (count, height, width))
    return torch.stack(torch.meshgrid(images + first, rows, columns, indexing="ij"), dim=-1).flatten(0, 2)


def whole_image_features(
    self: Any, pixel_values: Tensor, pixel_values_local: Any = None, num_local_patches: Any = None, **arguments: Any
) -> Any:
    """For get_image_features of Step3p7 and DeepSeek-OCR 2: InvalidSpec for local views, whose numbers are a list."""
    if pixel_values_local is not None or num_local_patches is not None:
        raise InvalidSpec("local views of images (pixel_values_local, num_local_patches) are in no graph of this model")
    tower = self.vision_model if hasattr(self, "vision_model") else self.vision_tower
    states = tower(pixel_values, **arguments).last_hidden_state
    features = self.multi_modal_projector(states)
    if (end := getattr(self, "view_separator", None)) is not None:
        features = torch.cat([features, end.expand(features.shape[0], 1, -1)], dim=1)
    return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=[features.flatten(0, 1)])
