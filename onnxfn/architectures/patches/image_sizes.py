"""Functions that convert sizes of images to Python numbers, which a trace would fix (transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def symbolic_int(x: Any) -> Any:
    """For torch_int: a symbolic size stays symbolic, anything else becomes an int."""
    return x if isinstance(x, torch.SymInt) else int(x)


def depth_anything_depth(self: Any, hidden_states: Any, patch_height: Any, patch_width: Any) -> Tensor:
    """For DepthAnythingDepthEstimationHead.forward, which converts the size of the depth map to Python integers."""
    features = self.conv1(hidden_states[self.head_in_index])
    size = (patch_height * self.patch_size, patch_width * self.patch_size)
    resized = functional.interpolate(features, size, mode="bilinear", align_corners=True)
    features = self.conv3(self.activation1(self.conv2(resized)))
    depth: Tensor = self.activation2(features) * self.max_depth
    return depth.squeeze(dim=1)


def relative_positions(q_size: Any, k_size: Any, rel_pos: Tensor) -> Tensor:
    """For get_rel_pos of modeling_vitdet: the embedding of each distance, `[q_size, k_size, size]`.

    Queries and keys have the same positions here. The original converts their number to a Python integer.
    """
    table = rel_pos.reshape(1, rel_pos.shape[0], -1).permute(0, 2, 1)
    resized = functional.interpolate(table, size=2 * q_size - 1, mode="linear")[0].permute(1, 0)
    return resized[torch.arange(q_size)[:, None] - torch.arange(k_size)[None, :] + k_size - 1]


def unit_steps(start: float, _: float, steps: Any, **options: Any) -> Tensor:
    """For torch.linspace, whose number of steps a trace fixes: `start`, `start + 1`, ...

    The models call linspace for the centers of pixels, which have the distance 1.
    """
    return torch.arange(steps, **options) + start


def tensor_of_sizes(data: Any, **options: Any) -> Tensor:
    """For torch.as_tensor, whose values a trace fixes: rows of symbolic sizes become a tensor that stays dynamic."""
    if not (isinstance(data, list) and data and isinstance(data[0], (list, tuple))):
        return torch.asarray(data, **options)
    return torch.stack([torch.stack([torch.scalar_tensor(size, **options) for size in sizes]) for sizes in data])
