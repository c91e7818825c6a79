"""BiT for images of every size, without a norm that trains (modeling_bit, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def padded_features(self: Any, features: Tensor) -> Tensor:
    """For DynamicPad2d.forward, which rounds a quotient up, in Python: a last step begins inside and ends there too."""
    import torch

    pads: list[int] = []
    for size, kernel, stride, dilation in zip(
        features.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], self.dilation[::-1], strict=True
    ):
        missing = (size - 1) // stride * stride + (kernel - 1) * dilation + 1 - size if kernel > 1 else 0
        pads += [missing // 2, missing - missing // 2]
    return torch.nn.functional.pad(features, pads, value=self.value)


def weight_standardized_convolution(self: Any, features: Tensor) -> Tensor:
    """For WeightStandardizedConv2d.forward, whose norm over weights is one that trains, which has no translation."""
    import torch

    weights = self.weight.flatten(1)
    centred = weights - weights.mean(1, keepdim=True)
    even = centred * (centred.square().mean(1, keepdim=True) + self.eps).rsqrt()
    return torch.nn.functional.conv2d(
        features if self.pad is None else self.pad(features),
        even.reshape_as(self.weight),
        self.bias,
        self.stride,
        self.padding,
        self.dilation,
        self.groups,
    )
