"""A tensor's bytes in chunks, from where they lie: what is larger than a chunk is never in memory twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

CHUNK = 1 << 24
"""Bytes that a chunk has at most, unless one row of a transposed matrix has more."""

TILE = 128
"""Rows and columns of the square that is transposed at once: two of them fit a core's cache, whatever the strides."""


def chunks(tensor: Any, most: int = CHUNK) -> Iterator[Any]:
    """The bytes of an `onnx_ir` tensor in the order of ONNX, as arrays of uint8; views where they lie so already.

    A torch tensor may be any view of its memory; what is no torch tensor comes in one piece.
    """
    raw = torch_tensor(tensor)
    if raw is None:
        yield np.frombuffer(tensor.tobytes(), np.uint8)
    else:
        for part in _contiguous(raw, most):
            yield _bytes(part)


def torch_tensor(tensor: Any) -> Any:
    """The torch tensor that an `onnx_ir` tensor looks at, where its elements are whole bytes; else None."""
    raw: Any = getattr(tensor, "raw", None)
    if not hasattr(raw, "untyped_storage") or raw.numel() * raw.element_size() != tensor.nbytes:
        return None
    return raw.detach().resolve_conj().resolve_neg()


def memory(tensor: Any) -> Any:
    """What tells whether two tensors hold the same bytes because they look at the same memory; None if nothing does."""
    raw = torch_tensor(tensor)
    if raw is None or not raw.numel():
        return None
    if raw.is_contiguous():
        return raw.data_ptr(), tensor.nbytes
    return raw.data_ptr(), tuple(raw.shape), tuple(raw.stride()), raw.element_size()


def _contiguous(raw: Any, most: int) -> Iterator[Any]:
    """A tensor as contiguous tensors that follow each other, each of at most so many bytes."""
    if raw.is_contiguous():
        yield from raw.view(-1).split(max(1, most // raw.element_size()))
    elif _transposed(raw):
        yield from map(_untransposed, raw.split(min(TILE, _rows(raw, most))))
    elif raw.ndim > 1 and raw[0].numel() > TILE * TILE:
        for part in raw:
            yield from _contiguous(part, most)
    else:
        yield from (part.contiguous() for part in raw.split(_rows(raw, most)))


def _transposed(raw: Any) -> bool:
    match raw.stride():
        case (row, column):
            return bool(row < column)
    return False


def _rows(raw: Any, most: int) -> int:
    """How many entries of the first axis are so many bytes."""
    row: int = raw[0].numel() * raw.element_size()
    return max(1, most // max(1, row))


def _untransposed(rows: Any) -> Any:
    """Rows of a transposed matrix one after the other, tile by tile: along its columns they lie a whole row apart."""
    import torch

    made = torch.empty(rows.shape, dtype=rows.dtype)
    for tile, place in zip(rows.split(TILE, dim=1), made.split(TILE, dim=1), strict=True):
        place.copy_(tile.t().contiguous().t().contiguous())
    return made


def _bytes(part: Any) -> Any:
    import torch

    return part.view(-1).view(torch.uint8).numpy()
