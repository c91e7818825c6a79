"""TimesFM's statistics without sums of 32-bit numbers, which ONNX keeps in 32 bits and torch does not."""

from __future__ import annotations

from typing import Any

from torch import Tensor

ENOUGH = 3
"""A patch tells the scale of a series when it has as many steps that are no padding."""


def masked_mean_std(_: Any, inputs: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
    """For TimesFmModel._timesfm_masked_mean_std (transformers 5.23): mean and deviation `[batch]` of one patch.

    Takes `[batch, patches, steps]`, and 1 where a step is padding. The patch is the first that has enough steps, or
    the last.
    """
    import torch

    kept = 1 - padding
    enough = kept.sum(dim=2) >= ENOUGH
    last = torch.full_like(enough[:, 0], enough.shape[1] - 1, dtype=torch.int64)
    chosen = torch.where(enough.any(dim=1), enough.to(torch.int64).argmax(dim=1), last)
    index = chosen[:, None, None].expand(-1, 1, inputs.shape[2])
    steps, there = (one.gather(1, index)[:, 0] for one in (inputs, kept))
    count = there.sum(dim=1).clamp(min=1.0)
    mean = (steps * there).sum(dim=1) / count
    variance = (((steps - mean[:, None]) * there) ** 2).sum(dim=1) / count
    return mean, variance.clamp(min=0.0).sqrt()
