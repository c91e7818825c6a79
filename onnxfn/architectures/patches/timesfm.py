"""TimesFM's statistics without sums of int32 tensors: the sum is int32 in ONNX, and int64 in torch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

LEAST_VALID_STEPS = 3
"""The mean and the deviation of a series are those of a patch with at least this number of steps without padding."""


def masked_mean_std(_: Any, inputs: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
    """For TimesFmModel._timesfm_masked_mean_std (modeling_timesfm, transformers 5.23): mean and deviation, `[batch]`.

    `inputs` is `[batch, patches, steps]`. `padding` has the same shape, and is 1 where a step is padding. The
    statistics are those of the first patch that has enough valid steps, or of the last patch.
    """
    import torch

    valid = 1 - padding
    has_enough = valid.sum(dim=2) >= LEAST_VALID_STEPS
    last = torch.full_like(has_enough[:, 0], has_enough.shape[1] - 1, dtype=torch.int64)
    patch = torch.where(has_enough.any(dim=1), has_enough.to(torch.int64).argmax(dim=1), last)
    index = patch[:, None, None].expand(-1, 1, inputs.shape[2])
    steps, mask = (tensor.gather(1, index)[:, 0] for tensor in (inputs, valid))
    count = mask.sum(dim=1).clamp(min=1.0)
    mean = (steps * mask).sum(dim=1) / count
    variance = (((steps - mean[:, None]) * mask) ** 2).sum(dim=1) / count
    return mean, variance.clamp(min=0.0).sqrt()
