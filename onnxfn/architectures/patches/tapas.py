"""TAPAS, whose means over the cells of a table ONNX does not have (modeling_tapas, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def segment_reduction(
    values: Tensor,
    index: Any,
    segment_reduce_fn: str,
    name: str,  # noqa: ARG001 - the original has it
) -> tuple[Tensor, Any]:
    """For _segment_reduce, whose mean by `scatter_reduce` is a sum in ONNX. Here the mean is a sum over a count."""
    from transformers.models.tapas.modeling_tapas import flatten, range_index_map

    segments, axes = flatten(index), index.indices.dim()
    reduced = _reduced(values.flatten(0, axes - 1).float(), segments, segment_reduce_fn)
    shape = (*index.batch_shape(), index.num_segments, *values.shape[axes:])
    positions = range_index_map(index.batch_shape(), index.num_segments, device=index.indices.device)
    return reduced.view(shape).to(values.dtype), positions


def _reduced(values: Tensor, segments: Any, function: str) -> Tensor:
    """The values of each segment as a single one; 0 for a segment without values."""
    import torch

    zeros, indices = values.new_zeros(segments.num_segments), segments.indices.long()
    if function != "mean":
        return zeros.scatter_reduce(0, indices, values, function, include_self=False)
    counts = zeros.scatter_add(0, indices, torch.ones_like(values))
    return zeros.scatter_add(0, indices, values) / counts.clamp(min=1)
