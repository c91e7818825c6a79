"""A tensor's bytes in chunks, from where they lie: what is larger than a chunk is never in memory twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

CHUNK = 1 << 20
"""Bytes of a chunk: what a core's cache holds."""

MOST = 1 << 26
"""Bytes of the largest chunk: `TILE` rows of a transposed matrix are one, as far as they are not more."""

TILE = 128
"""Rows and columns of the square that is transposed at once: two of them fit a core's cache, whatever the strides."""

WORKERS = 2
"""Threads that transpose what is written next, while this one writes."""


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
    """A tensor as contiguous tensors that follow each other, each of about so many bytes."""
    if raw.is_contiguous():
        yield from _split(_flat(raw), most // raw.element_size())
    elif raw.nbytes <= most:
        yield raw.contiguous()
    elif _transposed(raw):
        yield from _ahead(_untransposed, _split(raw, min(TILE, MOST // (len(raw[0]) * raw.element_size()))))
    elif raw.ndim > 1 and raw[0].nbytes > most:
        for part in raw:
            yield from _contiguous(part, most)
    else:
        yield from (part.contiguous() for part in _split(raw, most // max(1, raw[0].nbytes)))


def _ahead(made: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[Any]:
    """`map(made, parts)`, a few of them made in other threads before they are asked for."""
    with ThreadPoolExecutor(WORKERS) as pool:
        coming: deque[Any] = deque()
        for part in parts:
            coming.append(pool.submit(made, part))
            if len(coming) > WORKERS:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _split(raw: Any, rows: int) -> Iterator[Any]:
    """A tensor in pieces along its first axis, each made when it is asked for."""
    step = max(1, rows)
    return (raw[start : start + step] for start in range(0, len(raw), step))


def _transposed(raw: Any) -> bool:
    match raw.stride():
        case (row, column):
            return bool(row < column)
    return False


def _untransposed(rows: Any) -> Any:
    """Rows of a transposed matrix one after the other, tile by tile: along its columns they lie a whole row apart."""
    import torch

    made = torch.empty(rows.shape, dtype=rows.dtype)
    for tile, place in zip(rows.split(TILE, dim=1), made.split(TILE, dim=1), strict=True):
        place.copy_(tile.t().contiguous().t().contiguous())
    return made


def _flat(raw: Any) -> Any:
    """A contiguous tensor as one row; `view` would keep the stride of a single element, which says nothing."""
    return raw.as_strided((raw.numel(),), (1,))


def _bytes(part: Any) -> Any:
    import torch

    return _flat(part).view(torch.uint8).numpy()
