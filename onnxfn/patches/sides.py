"""Sides of images that models make numbers of, in Python, which a trace bakes in (transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def whole(size: Any) -> Any:
    """For torch_int: a size that moves is whole as it is."""
    import torch

    return size if isinstance(size, torch.SymInt) else int(size)


def deepened(self: Any, hidden_states: Any, patch_height: Any, patch_width: Any) -> Tensor:
    """For DepthAnythingDepthEstimationHead.forward: a depth for each place of as many whole patches."""
    from torch.nn import functional

    seen = self.conv1(hidden_states[self.head_in_index])
    sides = (patch_height * self.patch_size, patch_width * self.patch_size)
    enlarged = functional.interpolate(seen, sides, mode="bilinear", align_corners=True)
    found = self.conv3(self.activation1(self.conv2(enlarged)))
    depth: Tensor = self.activation2(found) * self.max_depth
    return depth.squeeze(dim=1)
