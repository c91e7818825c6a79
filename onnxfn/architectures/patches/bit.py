"""BiT for images of any size, without a batch norm in training mode (modeling_bit, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def padded_features(self: Any, input: Tensor) -> Tensor:  # noqa: A002 - the original's name
    """For DynamicPad2d.forward, which rounds a quotient up in Python, so that a trace fixes the padding.

    The padding makes the number of convolution steps `ceil(size / stride)` ("same" padding).
    """
    pads: list[int] = []
    for size, kernel, stride, dilation in zip(
        input.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], self.dilation[::-1], strict=True
    ):
        padding = (size - 1) // stride * stride + (kernel - 1) * dilation + 1 - size if kernel > 1 else 0
        pads += [padding // 2, padding - padding // 2]
    return torch.nn.functional.pad(input, pads, value=self.value)


def weight_standardized_convolution(self: Any, hidden_state: Tensor) -> Tensor:
    """For WeightStandardizedConv2d.forward, which standardizes weights by a batch norm in training mode.

    torch's exporter does not translate that mode. Here the mean and the variance are computed by elementary operators.
    """
    weights = self.weight.flatten(1)
    centered = weights - weights.mean(1, keepdim=True)
    standardized = centered * (centered.square().mean(1, keepdim=True) + self.eps).rsqrt()
    return torch.nn.functional.conv2d(
        hidden_state if self.pad is None else self.pad(hidden_state),
        standardized.reshape_as(self.weight),
        self.bias,
        self.stride,
        self.padding,
        self.dilation,
        self.groups,
    )
