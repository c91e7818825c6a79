"""Audio towers that take the frames of all sounds in one row, without loops over the sounds."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def segment_ends(
    chunk_lengths: Tensor,
    feature_lens: Tensor,
    n_window_infer: int,
    n_window: int,
    kwargs: Any = None,  # noqa: ARG001
) -> Tensor:
    """For get_audio_cu_seqlens of Qwen3-ASR (transformers 5.23): 0, then for each row the end of its window.

    The original has each end once. A window has as many rows as `n_window_infer` frames; the last one of a sound may
    have fewer.
    """
    import torch
    from torch.nn import functional

    counts = _rows(feature_lens, n_window)
    window = _rows(chunk_lengths, n_window).max() * (n_window_infer // (2 * n_window))
    index = torch.arange(counts.sum().item(), device=counts.device)
    ends = counts.cumsum(0)
    sound = (index[:, None] >= ends[None]).sum(-1)
    first = (ends - counts)[sound]
    within = (index - first) // window + 1
    return functional.pad(torch.minimum(first + within * window, ends[sound]), (1, 0))


def _rows(frames: Tensor, n_window: int) -> Tensor:
    """The rows that convolutions make of the frames of sounds in chunks of `2 * n_window` frames: 13 of a whole one."""
    import torch

    rest = frames % (2 * n_window)
    rows = torch.where(rest > 0, ((rest + 1) // 2 + 1) // 2, 0)
    return (rows + 1) // 2 + frames // (2 * n_window) * 13
