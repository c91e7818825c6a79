"""Of diffusers 0.42: pictures whose sides no halving divides evenly, and batches of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

NUM_UPSAMPLERS = property(lambda _: 60)
"""For UNet2DConditionModel.num_upsamplers: so many halvings that no side is whole after them."""


def upsampled_features(self: Any, hidden_states: Tensor, output_size: Any = None, *_: Any, **__: Any) -> Tensor:
    """For Upsample2D.forward: the same for any batch, where the original lays out 64 and more otherwise."""
    from torch.nn import functional

    made = hidden_states
    if self.norm is not None:
        made = self.norm(made.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    if self.use_conv_transpose:
        return self.conv(made)
    if self.interpolate:
        size = {"scale_factor": 2.0} if output_size is None else {"size": output_size}
        made = functional.interpolate(made, mode="nearest", **size)
    if not self.use_conv:
        return made
    return self.conv(made) if self.name == "conv" else self.Conv2d_0(made)
