"""Sides of images that models make numbers of, in Python, which a trace bakes in (transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def symbolic_int(size: Any) -> Any:
    """For torch_int: a size that moves is whole as it is."""
    import torch

    return size if isinstance(size, torch.SymInt) else int(size)


def depth_anything_depth(self: Any, hidden_states: Any, patch_height: Any, patch_width: Any) -> Tensor:
    """For DepthAnythingDepthEstimationHead.forward: a depth for each place of as many whole patches."""
    from torch.nn import functional

    seen = self.conv1(hidden_states[self.head_in_index])
    sides = (patch_height * self.patch_size, patch_width * self.patch_size)
    enlarged = functional.interpolate(seen, sides, mode="bilinear", align_corners=True)
    found = self.conv3(self.activation1(self.conv2(enlarged)))
    depth: Tensor = self.activation2(found) * self.max_depth
    return depth.squeeze(dim=1)


def relative_positions(q_size: Any, k_size: Any, rel_pos: Tensor) -> Tensor:
    """For get_rel_pos of VitDet, where queries and keys are the same places: a vector for each distance of two."""
    import torch
    from torch.nn import functional

    known = rel_pos.reshape(1, rel_pos.shape[0], -1).permute(0, 2, 1)
    resized = functional.interpolate(known, size=2 * q_size - 1, mode="linear")[0].permute(1, 0)
    return resized[torch.arange(q_size)[:, None] - torch.arange(k_size)[None, :] + k_size - 1]


def unit_steps(start: float, _: float, steps: Any, **kinds: Any) -> Tensor:
    """For torch.linspace, of which a trace keeps how many: numbers one apart, as models ask for middles of places."""
    import torch

    return torch.arange(steps, **kinds) + start


def tensor_of_sizes(data: Any, **kinds: Any) -> Tensor:
    """For torch.as_tensor, of which a trace keeps the numbers: here rows of sides that move."""
    import torch

    if not (isinstance(data, list) and data and isinstance(data[0], (list, tuple))):
        return torch.asarray(data, **kinds)
    return torch.stack([torch.stack([torch.scalar_tensor(side, **kinds) for side in sides]) for sides in data])
