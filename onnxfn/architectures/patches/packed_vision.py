"""Vision towers without loops over images: all is computed from the index of a patch (vision_utils of 5.23)."""

from collections.abc import Callable
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.torch_names import torch_name


def resized_positional_embeddings(
    _: Any, positional_embeddings: Tensor, spatial_shapes: Tensor, max_length: int
) -> Tensor:
    """For Siglip2VisionEmbeddings.resize_positional_embeddings (transformers 5.23): `[images, max_length, size]`."""
    # A padding patch has the embedding of the first patch.
    patches = torch.arange(max_length, device=positional_embeddings.device)[None]
    rows, columns = spatial_shapes[:, :1], spatial_shapes[:, 1:]
    is_patch = patches < rows * columns
    row, column = (torch.where(is_patch, index, 0) for index in (patches // columns, patches % columns))
    return _antialiased(positional_embeddings, (row, rows), (column, columns))


def antialiased_positions(_: Any, positional_embeddings: Tensor, grid_thw: Tensor, spatial_merge_size: int) -> Tensor:
    """For Cosmos3EdgeVisionEmbeddings.resize_positional_embeddings: the table `[height, width, size]` at each patch."""
    patches = patches_of(grid_thw, spatial_merge_size)
    return _antialiased(positional_embeddings, (patches.row, patches.height), (patches.column, patches.width))


def _antialiased(table: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]) -> Tensor:
    """A table `[height, width, size]`, resized with antialiasing, at places `(index, new size)` of both axes."""
    weights = (_weights(*places, size) for places, size in zip((rows, columns), table.shape[:2], strict=True))
    resized: Tensor = torch.einsum("...r,...c,rcs->...s", *weights, table.float())
    return resized.to(table.dtype)


def _weights(indices: Tensor, sizes: Tensor, source: int) -> Tensor:
    """The weights of the `source` elements of an axis in the element at each index, after resizing to `sizes`."""
    scale = source / sizes[..., None].float()
    centers = (indices[..., None].float() + 0.5) * scale
    distances = (torch.arange(source, device=indices.device) + 0.5 - centers).abs() / scale.clamp(min=1.0)
    weights = (1.0 - distances).clamp(min=0.0)
    return weights / weights.sum(dim=-1, keepdim=True)


@frozen
class Patches:
    """Facts about each patch of all images: `[patches]`."""

    image: Tensor
    within: Tensor  # its index in its image
    frame: Tensor
    first: Tensor  # the index of the first patch of its frame
    height: Tensor  # of its image
    width: Tensor
    row: Tensor
    column: Tensor


def patches_of(grid_thw: Tensor, merge: Any = 1) -> Patches:
    """The facts about each patch of images with grids `[images, 3]`, in blocks of side `merge`."""
    image, within = members(grid_thw.prod(-1))
    height, width = grid_thw[:, 1][image], grid_thw[:, 2][image]
    side = merge if isinstance(merge, int) else merge[image]
    in_frame = within % (height * width)
    block, in_block = in_frame // (side * side), in_frame % (side * side)
    return Patches(
        image=image,
        within=within,
        frame=within // (height * width),
        first=torch.arange(image.shape[0], device=grid_thw.device) - in_frame,
        height=height,
        width=width,
        row=block // (width // side) * side + in_block // side,
        column=block % (width // side) * side + in_block % side,
    )


def members(counts: Tensor) -> tuple[Tensor, Tensor]:
    """The owner of each item, and the index of the item among those of its owner: 0 0 1 and 0 1 0 for counts 2, 1."""
    owner = torch.repeat_interleave(counts)
    return owner, torch.arange(owner.shape[0], device=counts.device) - starts(counts)[owner]


def starts(counts: Tensor) -> Tensor:
    """The index of the first item of each owner: 0, 2, 3 for counts of 2, 1, 3."""
    return counts.cumsum(0) - counts


def blocks_of(grid_thw: Tensor, height: int, width: int, first: Tensor | None = None) -> Tensor:
    """The indices of the patches of each block, row by row, `[blocks, height * width]`; `first`: that of each image."""
    cells = patches_of(torch.stack([grid_thw[:, 0], grid_thw[:, 1] // height, grid_thw[:, 2] // width], dim=1))
    image, row_length = cells.image, grid_thw[:, 2][cells.image]
    row = cells.frame * grid_thw[:, 1][image] + cells.row * height
    start = (starts(grid_thw.prod(-1)) if first is None else first)[image] + row * row_length + cells.column * width
    inner = torch.arange(height * width, device=grid_thw.device)
    return start[:, None] + inner // width * row_length[:, None] + inner % width


def position_ids(
    grid_thw: Tensor, spatial_merge_size: Any, include_temporal: bool = False, kwargs: Any = None
) -> Tensor:
    """For get_vision_position_ids: the frame, if it is wanted, the row and the column of each patch."""
    patches = patches_of(grid_thw, spatial_merge_size)
    frame = [patches.frame] if include_temporal else []
    return torch.stack([*frame, patches.row, patches.column], dim=-1)


def window_index(
    grid_thw: Tensor, spatial_merge_size: int, window_size: int, patch_size: int, kwargs: Any = None
) -> tuple[Tensor, Tensor]:
    """For get_vision_window_index: the merged patches in the order of windows, and the ends of the windows."""
    side = window_size // spatial_merge_size // patch_size
    cells = patches_of(torch.cat([grid_thw[:, :1], grid_thw[:, 1:] // spatial_merge_size], dim=1))
    top, left = cells.row // side * side, cells.column // side * side
    height = torch.minimum(cells.height - top, torch.full_like(top, side))
    width = torch.minimum(cells.width - left, torch.full_like(left, side))
    first = cells.first + top * cells.width + left * height
    # the number of patches before one: the windows above and at the left, and the patches before it in its window
    target = first + (cells.row - top) * width + cells.column - left
    index = torch.zeros_like(target).scatter(0, target, torch.arange(target.shape[0], device=target.device))
    ends = (first + height * width)[index] * spatial_merge_size**2
    return index, functional.pad(ends, (1, 0))


def whole_windows(self: Any, target_sizes: Tensor, kwargs: Any = None) -> tuple[Tensor, Tensor, int]:
    """For get_window_index of MiniCPM-V, whose windows are all whole: the order of patches, and the ends of windows."""
    side = self.window_kernel_size[0]
    index, _ = window_index(functional.pad(target_sizes, (1, 0), value=1), 1, side, 1)
    return index, torch.arange(index.shape[0] // side**2 + 1, device=index.device) * side**2, side**2


def merged_order(grid_thw: Tensor, merge_size: int, kwargs: Any = None) -> Tensor:
    """For get_vision_pixel_shuffle_index: the index of each patch, so that patches to be merged are neighbors."""
    patches = patches_of(grid_thw, merge_size)
    return patches.first + patches.row * patches.width + patches.column


def frame_index(grid_thw: Tensor, kwargs: Any = None) -> Tensor:
    """For get_vision_frame_index of Kimi K2.5: 0 for a patch of an image, and from 1 the frame for one of a video."""
    patches = patches_of(grid_thw)
    return patches.frame + (grid_thw[:, 0][patches.image] > 1).long()


def temporal_merge_index(grid_thw: Tensor, kernel_height: int, kernel_width: int, kwargs: Any = None) -> Tensor:
    """For get_vision_temporal_merge_index of Kimi K2.5 (transformers 5.23): `[merged, frames, patches of each]`."""
    # All videos have the same number of frames, as the original needs it. For transformers 5.24 see `merged_frames`.
    frame = functional.pad(grid_thw[:, 1:], (1, 0), value=1)
    patches = blocks_of(frame, kernel_height, kernel_width, starts(grid_thw.prod(-1)))
    sizes = frame.prod(-1)
    image, _ = members(sizes // (kernel_height * kernel_width))
    frames = torch.arange(grid_thw[0, 0].item(), device=grid_thw.device)
    return patches[:, None] + frames[:, None] * sizes[image, None, None]


def merged_frames(
    _: Any, hidden_states: Tensor, grid_thw: Tensor, kernel_height: int, kernel_width: int, kwargs: Any = None
) -> Tensor:
    """For Kimi_K25VisionModel.temporal_merge (transformers 5.24): mean frames, `[merged, patches of each, width]`."""
    patches, size = patches_of(grid_thw), kernel_height * kernel_width
    row, column = patches.row, patches.column
    counts = (grid_thw[:, 1] // kernel_height) * (grid_thw[:, 2] // kernel_width)
    block = row // kernel_height * (patches.width // kernel_width) + column // kernel_width
    block += starts(counts)[patches.image]
    target = block * size + row % kernel_height * kernel_width + column % kernel_width
    shares = hidden_states.float() / grid_thw[:, :1][patches.image]
    merged = torch.zeros(counts.sum().item() * size, shares.shape[-1], device=shares.device)
    return merged.index_add(0, target, shares).unflatten(0, (-1, size)).to(hidden_states.dtype)


def nearest_position_ids(target_sizes: Tensor, num_patches_per_side: int, kwargs: Any = None) -> Tensor:
    """For get_vision_nearest_position_ids: the entry of a square table of positions that is nearest to each patch."""
    patches = patches_of(functional.pad(target_sizes, (1, 0), value=1))
    bounds = torch.arange(1 / num_patches_per_side, 1.0, 1 / num_patches_per_side, device=target_sizes.device)
    row, column = (
        ((index / size)[:, None] >= bounds).sum(-1)
        for index, size in ((patches.row, patches.height), (patches.column, patches.width))
    )
    return row * num_patches_per_side + column


def merged_patches(_: Any, hidden_states: Tensor, grid_thw: Tensor, merge_sizes: Tensor) -> Tensor:
    """For VideoLlama3VisionModel.pixel_unshuffle: each image, made smaller by its merge size."""
    # Bilinear resizing without antialiasing reads the middle patch of a block, or the mean of the four middle ones.
    patches = patches_of(grid_thw)
    merge = merge_sizes[patches.image]
    inner, middle = patches.within % (merge * merge), (merge - 1) / 2
    row_weights, column_weights = ((1 - (side - middle).abs()).clamp(min=0) for side in (inner // merge, inner % merge))
    weighted = hidden_states * (row_weights * column_weights)[:, None].to(hidden_states.dtype)
    counts = grid_thw.prod(-1) // (merge_sizes * merge_sizes)
    block = starts(counts)[patches.image] + patches.within // (merge * merge)
    blocks = torch.zeros(counts.sum().item(), hidden_states.shape[-1], dtype=weighted.dtype, device=weighted.device)
    return blocks.index_add(0, block, weighted)


def averaged_tokens(_: Any, hidden_states: Tensor, pixel_position_ids: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """For Gemma4VisionPooler._avg_pool_by_positions: the mean of each square of patches, and which squares exist."""
    side = int((hidden_states.shape[1] // length) ** 0.5)
    places = pixel_position_ids.clamp(min=0)
    squares = (places[..., 0].amax(-1, keepdim=True) + 1) // side
    square = places[..., 0] // side + squares * (places[..., 1] // side)
    weights = (square[..., None] == torch.arange(length, device=square.device)).float() / side**2
    averaged = weights.transpose(1, 2) @ hidden_states.float()
    return averaged.to(hidden_states.dtype), (weights != 0).any(dim=1)


def is_packed(
    config: Any = None,
    requested_attention_implementation: str | None = None,  # towers ask by their configuration
    version: Any = None,
) -> bool:
    """For is_flash_attention_requested: true for a tower, which then attends to all patches or frames in one call."""
    return hasattr(config, "patch_size") or hasattr(config, "n_window")


def attention_interface(self: Any, attn_implementation: str | None, default: Callable[..., Any]) -> Callable[..., Any]:
    """For AttentionInterface.get_interface: the function of that name, with a mask of the patches of other segments."""
    attend = self.get(attn_implementation, default)

    def packed(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **arguments: Any) -> Any:
        ends = arguments.pop("cu_seq_lens_q", None)
        for name in ("cu_seq_lens_k", "max_length_q", "max_length_k"):
            arguments.pop(name, None)
        mask = attention_mask if ends is None else _mask_of_segments(query, ends)
        return attend(module, query, key, value, attention_mask=mask, **arguments)

    return packed


def _mask_of_segments(query: Tensor, ends: Tensor) -> Tensor:
    """0 between patches of one segment and a large negative number elsewhere: `[1, 1, patches, patches]`."""
    torch_name("check")(query.shape[2] > 1)
    segment = (torch.arange(query.shape[2], device=query.device)[:, None] >= ends[None, 1:]).sum(-1)
    lowest = torch.finfo(query.dtype).min
    return torch.where(segment[:, None] == segment[None, :], 0.0, lowest).to(query.dtype)[None, None]
