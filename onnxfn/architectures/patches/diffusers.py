"""UNets of diffusers 0.42 for images of any size and batches of any size."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

NUM_UPSAMPLERS = property(lambda _: 60)
"""For UNet2DConditionModel.num_upsamplers.

The model passes sizes to its upsamplers only if `2 ** num_upsamplers` does not divide a side of the image, and a trace
fixes that branch. `2 ** 60` divides no side, so sizes are always passed.
"""


def upsampled_features(self: Any, hidden_states: Tensor, output_size: Any = None, *_: Any, **__: Any) -> Tensor:
    """For Upsample2D.forward, which changes the memory layout for batches of 64 and more."""
    features = hidden_states
    if self.norm is not None:
        features = self.norm(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    if self.use_conv_transpose:
        return self.conv(features)
    if self.interpolate:
        size = {"scale_factor": 2.0} if output_size is None else {"size": output_size}
        features = functional.interpolate(features, mode="nearest", **size)
    if not self.use_conv:
        return features
    return self.conv(features) if self.name == "conv" else self.Conv2d_0(features)
