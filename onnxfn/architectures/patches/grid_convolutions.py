"""Vision towers that convolve or merge the patches of each image on its grid: neighbours are read by their index."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.vision_utils import get_vision_cu_seqlens

from onnxfn.architectures.patches.packed_vision import blocks_of, members, patches_of, position_ids, starts
from onnxfn.architectures.private.transformers_names import transformers_name


def paddleocr_features(self: Any, image_features: Tensor, image_grid_thw: Tensor) -> Tensor:
    """For PaddleOCRProjector.forward (transformers 5.23), which loops over the images."""
    blocks = blocks_of(image_grid_thw, *self.merge_kernel_size)
    return self.linear_2(self.act(self.linear_1(self.pre_norm(image_features)[blocks].flatten(1))))


def lfm2_vl_features(
    self: Any, pixel_values: Tensor, spatial_shapes: Tensor, pixel_attention_mask: Tensor, **_: Any
) -> Any:
    """For Lfm2VlModel.get_image_features (transformers 5.23), which loops over the images."""
    states = self.vision_tower(
        pixel_values=pixel_values,
        spatial_shapes=spatial_shapes,
        pixel_attention_mask=pixel_attention_mask,
        return_dict=True,
    ).last_hidden_state
    count, length, _ = states.shape
    first = torch.arange(count, device=states.device) * length
    projector = self.multi_modal_projector
    blocks = blocks_of(pad(spatial_shapes, (1, 0), value=1), projector.factor, projector.factor, first)
    merged = states.flatten(0, 1)[blocks].flatten(1)
    merged = projector.layer_norm(merged) if projector.use_layer_norm else merged
    features = projector.linear_2(projector.act(projector.linear_1(merged)))
    return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=features)


def minicpm_features(self: Any, hidden_states: Tensor, target_sizes: Tensor) -> Tensor:
    """For the forward of MiniCPM-V's merger (transformers 5.23): rounds of merges, which loop over the images."""
    states = hidden_states[0]
    for mlp in self.mlp:
        blocks = blocks_of(pad(target_sizes, (1, 0), value=1), *self.merge_kernel_size)
        states = mlp(states[blocks].flatten(1))
        target_sizes = target_sizes // self.merge_kernel_size[0]
    return states


def lfm3_vl_states(self: Any, pixel_values: Tensor, grid_thw: Tensor, **_: Any) -> Any:
    """For Lfm3VlVisionModel.forward (transformers 5.23), which reads the grids for its convolutions."""
    states = self.embedding_norm(self.patch_embed(pixel_values))
    rotations = self.rotary_pos_emb(states, position_ids(grid_thw, self.spatial_merge_size))
    for layer in self.layers:
        states = layer(
            states, cu_seqlens=get_vision_cu_seqlens(grid_thw), grid_thw=grid_thw, position_embeddings=rotations
        )
    return BaseModelOutputWithPooling(last_hidden_state=states)


def lfm3_vl_convolution(self: Any, hidden_states: Tensor, grid_thw: Tensor, **_: Any) -> Tensor:
    """For Lfm3VlVisionShortConv.forward, which loops over the images."""
    input_gate, output_gate, values = self.in_proj(hidden_states).chunk(3, dim=-1)
    index, is_inside = _neighbours(grid_thw, self.spatial_merge_size, self.spatial_conv.kernel_size[0])
    around = (input_gate * values)[index] * is_inside[..., None]
    return self.out_proj(output_gate * torch.einsum("pkc,ck->pc", around, self.spatial_conv.weight.flatten(1)))


def _neighbours(grid_thw: Tensor, merge: int, side: int) -> tuple[Tensor, Tensor]:
    """The indices of the patches around each, `[patches, side * side]`, and which of them are in its frame."""
    # An index outside the frame is that of a patch at its edge. `merge`: the side of blocks that follow each other.
    patches, reach = patches_of(grid_thw, merge), side // 2
    inner = torch.arange(side * side, device=grid_thw.device)
    height, width = patches.height[:, None], patches.width[:, None]
    rows, columns = patches.row[:, None] + inner // side - reach, patches.column[:, None] + inner % side - reach
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    rows, columns = rows.clamp(min=0).minimum(height - 1), columns.clamp(min=0).minimum(width - 1)
    block = rows // merge * (width // merge) + columns // merge
    in_frame = block * (merge * merge) + rows % merge * merge + columns % merge
    return patches.first[:, None] + in_frame, is_inside


def hunyuan_vl_features(self: Any, pixel_values: Tensor, grid_thw: Tensor, **_: Any) -> Any:
    """For HunYuanVLVisionTransformer.forward (transformers 5.23), which loops over the images."""
    return _merged_features(self, _hunyuan_embeddings(self.embeddings, pixel_values, grid_thw), grid_thw, _hunyuan_rows)


def hy_v4_vl_features(self: Any, pixel_values: Tensor, grid_thw: Tensor, **_: Any) -> Any:
    """For HYV4VLVisionModel.forward (transformers 5.24), which loops over the images."""
    embeddings = _hunyuan_embeddings(self.embeddings, pixel_values, grid_thw, beyond=0.1)
    return _merged_features(self, embeddings, grid_thw, _hy_v4_vl_rows)


def _merged_features(self: Any, embeddings: Tensor, grid_thw: Tensor, rows: Callable[..., Tensor]) -> Any:
    states = embeddings[None]
    for layer in self.layers:
        states = layer(states, cu_seqlens=get_vision_cu_seqlens(grid_thw), attention_mask=None)
    features = rows(self.patch_merger, states[0], grid_thw)[None]
    return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=features)


def _hunyuan_embeddings(self: Any, pixel_values: Tensor, grid_thw: Tensor, beyond: float = 0.0) -> Tensor:
    """The patches, and the table of positions resized to each image with sides that are longer by `beyond`."""
    sides = (self.config.num_channels, self.patch_size, self.patch_size)
    embeddings = self.patch_embedding(pixel_values.reshape(-1, *sides)).flatten(1)
    patches, side, mode = patches_of(grid_thw), self.position_edge, self.config.interpolate_mode
    # torch reads an axis of the size of the table as it is, unless the mode is bicubic.
    (rows, row_weights), (columns, column_weights) = (
        transformers_name("interpolation_weights")(
            index, size + beyond * ((size != side) | (mode == "bicubic")), side, mode, align_corners=False
        )
        for index, size in ((patches.row, patches.height), (patches.column, patches.width))
    )
    read = self.position_embedding.weight[1:].float().unflatten(0, (side, side))[rows[:, :, None], columns[:, None, :]]
    positions = torch.einsum("pr,pc,prcs->ps", row_weights, column_weights, read)
    return embeddings + positions.to(embeddings.dtype)


def _hunyuan_rows(self: Any, states: Tensor, grid_thw: Tensor) -> Tensor:
    """The merged patches of each image: a token at its begin, one after each row of blocks, and one at its end."""
    merged = _merged(self, states, grid_thw)
    rows = self.mlp(torch.cat([merged, self.image_newline[None].to(merged.dtype)]))
    ends = torch.stack([self.image_begin, self.image_end]).to(rows.dtype)
    sizes, total = grid_thw[:, 1:] // self.spatial_merge_size, merged.shape[0]
    order, within, length = _with_newlines(sizes, total, 1)
    order = torch.where(within == 0, total + 1, order)
    order = torch.where(within == length - 1, total + 2, order)
    return self.after_rms(torch.cat([rows, ends])[order])


def _hy_v4_vl_rows(self: Any, states: Tensor, grid_thw: Tensor) -> Tensor:
    """The merged patches of each image, and a token after each row of blocks; frames stand one above the other."""
    merged = _merged(self, states, grid_thw)
    rows = torch.cat([merged, self.image_newline[None].to(merged.dtype)])
    sizes = grid_thw[:, 1:] // self.spatial_merge_size * pad(grid_thw[:, :1], (0, 1), value=1)
    return rows[_with_newlines(sizes, merged.shape[0], 0)[0]]


def _merged(self: Any, states: Tensor, grid_thw: Tensor) -> Tensor:
    """The blocks of patches of all images, convolved twice, `[blocks, size]`."""
    blocks = self.before_rms(states)[blocks_of(grid_thw, self.spatial_merge_size, self.spatial_merge_size)].flatten(1)
    weight = self.proj_conv.weight.permute(0, 2, 3, 1).flatten(1)  # the stride of the convolution is its side
    convolved = blocks @ weight.T + self.proj_conv.bias
    merged: Tensor = self.proj_act(convolved) @ self.proj_out.weight.flatten(1).T + self.proj_out.bias
    return merged


def _with_newlines(sizes: Tensor, total: Any, ends: int) -> tuple[Tensor, Tensor, Tensor]:
    """The order of blocks, with `total` after each row and `ends` around an image; places in it; lengths of images."""
    height, width = sizes.unbind(-1)
    lengths = height * (width + 1) + 2 * ends
    image, within = members(lengths)
    row, column = (within - ends) // (width + 1)[image], (within - ends) % (width + 1)[image]
    block = starts(height * width)[image] + row * width[image] + column
    return torch.where(column == width[image], total, block), within, lengths[image]
