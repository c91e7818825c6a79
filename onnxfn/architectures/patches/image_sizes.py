"""Replacements of functions that convert image sizes to Python numbers or branch on them (transformers 5.23)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.algebra.dummies import Array


def symbolic_int(x: Any) -> Any:
    """For torch_int and int: a symbolic size stays symbolic, anything else becomes an int."""
    return x if isinstance(x, torch.SymInt) else int(x)


def relative_positions(q_size: Any, k_size: Any, rel_pos: Tensor) -> Tensor:
    """For get_rel_pos of modeling_vitdet, where `q_size` and `k_size` are equal: the embedding of each distance."""
    table = rel_pos.reshape(1, rel_pos.shape[0], -1).permute(0, 2, 1)
    resized = functional.interpolate(table, size=2 * q_size - 1, mode="linear")[0].permute(1, 0)
    return resized[torch.arange(q_size)[:, None] - torch.arange(k_size)[None, :] + k_size - 1]


def unit_steps(start: Any, end: Any, steps: Any, **options: Any) -> Tensor:
    """For torch.linspace, whose number of steps a trace fixes; no node computes a distance that is 1 at any size."""
    if not is_symbolic((start, end, steps)):
        return torch.ops.aten.linspace(start, end, steps, **options)
    numbers = torch.arange(steps, **{"dtype": torch.get_default_dtype(), **options})
    if _is_zero(end - start - (steps - 1)):
        return numbers + start
    return numbers * ((end - start) / torch.sym_max(steps - 1, 1)) + start


def _is_zero(difference: Any) -> bool:
    """Whether a number is 0, or a symbol at any sizes. To ask the symbol itself would be a condition of the trace."""
    if isinstance(difference, (int, float)):
        return difference == 0
    return bool(difference.node.expr.replace(torch_name("ToFloat"), lambda size: size).expand().is_zero)


def tensor_of_sizes(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """For torch.as_tensor: symbolic sizes become a dynamic tensor. A trace of the original fixes the values."""
    if not is_symbolic(data):
        return torch.asarray(data, dtype=dtype, device=device)
    if isinstance(data, torch.SymInt):
        return torch.scalar_tensor(data, dtype=dtype or torch.int64, device=device)
    return torch.stack([tensor_of_sizes(each, dtype or torch.int64, device) for each in data])


def is_symbolic(data: Any) -> bool:
    """Whether a number, or a number in a list, is a size of the inputs."""
    return any(map(is_symbolic, data)) if isinstance(data, Sequence) else isinstance(data, torch.SymInt)


def gathered_along_dim(input: Tensor, indices: Tensor, dim: int) -> Tensor:  # noqa: A002 - the original's signature
    """For torch.take_along_dim, which compares sizes and so fixes the batch. Here the sizes are equal."""
    return torch.gather(input, dim, indices)


def interpolated_bicubic(
    self: Any,
    embeddings: Tensor,  # the original compares their number with that of its table
    height: int,
    width: int,
) -> Tensor:
    """For `interpolate_pos_encoding` of DINOv2, which leaves out its table's own size: `[1, tokens, hidden]`."""
    class_embedding, table = self.position_embeddings[:, :1], self.position_embeddings[:, 1:]
    side = int(table.shape[1] ** 0.5)
    patch_height, patch_width = self.patch_embeddings.patch_size
    rows, columns = height // patch_height, width // patch_width
    if isinstance(rows, int) and isinstance(columns, int) and rows == columns == side:
        whole: Tensor = self.position_embeddings
        return whole
    grid = table.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    resized = functional.interpolate(grid.float(), size=(rows, columns), mode="bicubic", align_corners=False)
    patch_embeddings = resized.to(table.dtype).permute(0, 2, 3, 1).reshape(1, -1, table.shape[-1])
    return torch.cat((class_embedding, patch_embeddings), dim=1)


def flat_features(
    _: Any, vision_features: Sequence[Tensor], vision_pos_embeds: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Array]:
    """For Sam3DetrEncoder._prepare_multilevel_features: features and positions of all levels in one row, and sizes."""
    # The sizes are an array of objects: the model reads them one by one, and a trace reads no value from a tensor.
    features, positions = (
        torch.cat([level.flatten(2).transpose(1, 2) for level in levels], dim=1)
        for levels in (vision_features, vision_pos_embeds)
    )
    return features, positions, np.array([level.shape[-2:] for level in vision_features], dtype=object)


def patch_embeddings(
    self: Any,
    pixel_values: Tensor,
    interpolate_pos_encoding: bool = False,  # images have the size of the table
) -> Tensor:
    """For JanusVisionEmbeddings.forward: flatten becomes a Reshape with an unknown size, which no image has."""
    patches = self.patch_embedding(pixel_values)
    rows = patches.reshape(patches.shape[0], patches.shape[1], self.num_patches).transpose(1, 2)
    return rows + self.position_embedding(self.position_ids)


def channel_attention(self: Any, hidden_states: Tensor) -> Tensor:
    """For Florence2VisionChannelAttention.forward (transformers 5.23), whose scale is a number of Python."""
    batch, tokens, width = hidden_states.shape
    q, k, v = self.qkv(hidden_states).reshape(batch, tokens, 3, self.groups, -1).permute(2, 0, 3, 4, 1).unbind(0)
    weights = (torch.ones_like(hidden_states[0, :, 0]).sum().rsqrt() * q @ k.transpose(-2, -1)).softmax(-1)
    mixed: Tensor = self.proj((weights @ v).permute(0, 3, 1, 2).reshape(batch, tokens, width))
    return mixed


def visual_embeddings(
    self: Any, pixel_values: Tensor, pixel_mask: Tensor, max_image_length: int = 200
) -> tuple[Tensor, Tensor, tuple[Tensor, Any]]:
    """For ViltEmbeddings.visual_embed, which draws patches of padding and an order of patches at random."""
    # All patches are kept, in their order. Those of padding are masked, so that no text and no other patch sees them.
    patches = self.patch_embeddings(pixel_values)
    batch_size, _, height, width = patches.shape
    mask = functional.interpolate(pixel_mask[:, None].float(), size=(height, width))[:, 0].long()
    grid = self.position_embeddings[0, 1:].unflatten(0, (self.config.image_size // self.config.patch_size, -1))
    rows = _stretched(mask[:, :, 0].sum(1), height, grid.shape[0])
    columns = _stretched(mask[:, 0].sum(1), width, grid.shape[1])
    positions = torch.einsum("bhr,rcd,bwc->bhwd", rows, grid, columns).flatten(1, 2)
    states = patches.flatten(2).transpose(1, 2) + positions
    first = (self.cls_token + self.position_embeddings[:, :1]).expand(batch_size, -1, -1)
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).to(mask.device)
    of_first = torch.ones_like(mask[:, 0, :1])
    index = (places.expand(batch_size, -1, -1), (height, width))
    return self.dropout(torch.cat((first, states), 1)), torch.cat((of_first, mask.flatten(1)), 1), index


def _stretched(counts: Tensor, length: Any, size: int) -> Tensor:
    """The weights, `[batch, length, size]`, that stretch `size` values over the first `counts[i]` of all places."""
    places = torch.arange(length, device=counts.device)
    # a linear interpolation with aligned corners
    at = places * (size - 1) / (counts[:, None] - 1).clamp(min=1)
    weights = (1 - (at[..., None] - torch.arange(size, device=counts.device)).abs()).clamp(min=0)
    return weights * (places < counts[:, None])[..., None]
