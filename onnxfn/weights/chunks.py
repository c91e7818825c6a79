"""A tensor's bytes in chunks, from where they lie: what is larger than a chunk is never in memory twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

CHUNK_BYTES = 1 << 20
"""Bytes of a chunk: what a core's cache holds."""

MAX_CHUNK_BYTES = 1 << 26
"""Bytes of the largest chunk: `TILE` rows of a transposed matrix are one, as far as they are not more."""

TILE_SIZE = 128
"""Rows and columns of the square that is transposed at once: two of them fit a core's cache, whatever the strides."""

PIECES = "onnxfn.pieces"
"""Where a tensor's `meta` keeps the matrices that stand beside each other in it."""

TRANSPOSE_THREADS = 2
"""Threads that transpose what is written next, while this one writes."""


def chunks(tensor: Any, most: int = CHUNK_BYTES) -> Iterator[Any]:
    """The bytes of an `onnx_ir` tensor in the order of ONNX, as arrays of uint8; views where they lie so already.

    A tensor of torch or numpy may be any view of its memory, or such views `side_by_side`; what is neither comes in one
    piece.
    """
    raws = [_array(one) for one in _pieces(tensor)]
    if any(raw is None for raw in raws):
        yield np.frombuffer(tensor.tobytes(), np.uint8)
    else:
        for part in _contiguous_chunks(raws[0], most) if len(raws) == 1 else _concatenated_chunks(raws):
            yield part.reshape(-1).view(np.uint8)


def concatenated_columns(pieces: Sequence[Any]) -> Any:
    """The `onnx_ir` tensor that matrices of one type and as many rows make, put together when it is read."""
    import onnx_ir

    first, width = pieces[0], sum(one.shape[-1] for one in pieces)
    made = onnx_ir.LazyTensor(
        lambda: onnx_ir.Tensor(np.concatenate([one.numpy() for one in pieces], axis=-1), first.dtype),
        dtype=first.dtype,
        shape=onnx_ir.Shape([*first.shape[:-1], width]),
        name=first.name,
    )
    made.meta[PIECES] = tuple(pieces)
    return made


def torch_tensor(tensor: Any) -> Any:
    """The torch tensor that an `onnx_ir` tensor looks at, where its elements are whole bytes; else None."""
    raw: Any = getattr(tensor, "raw", None)
    if not hasattr(raw, "untyped_storage") or raw.numel() * raw.element_size() != tensor.nbytes:
        return None
    return raw.detach().resolve_conj().resolve_neg()


def memory_key(tensor: Any) -> Any:
    """What tells whether two tensors hold the same bytes because they look at the same memory; None if nothing does."""
    pieces = _pieces(tensor)
    if len(pieces) > 1:
        found = tuple(memory_key(one) for one in pieces)
        return None if None in found else found
    raw = _array(tensor)
    if raw is None or not raw.size:
        return None
    start = raw.__array_interface__["data"][0]
    if raw.flags.c_contiguous:
        return start, raw.nbytes
    return start, raw.shape, raw.strides, raw.itemsize


def _pieces(tensor: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = getattr(tensor, "meta", {}).get(PIECES, (tensor,))
    return found


def _array(tensor: Any) -> Any:
    """The array that an `onnx_ir` tensor looks at, of any type with elements so long; None where it looks at none."""
    raw = torch_tensor(tensor)
    if raw is not None:
        return _integer_view(raw)
    raw = getattr(tensor, "raw", None)
    whole = isinstance(raw, np.ndarray) and raw.itemsize == tensor.dtype.itemsize
    return raw if whole else None


def _integer_view(raw: Any) -> Any:
    """A torch tensor as an array: of whole numbers, since numpy lacks some of torch's types, but for the longest."""
    import torch

    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(raw.element_size(), raw.dtype)
    return raw.view(whole).numpy()


def _contiguous_chunks(raw: Any, most: int) -> Iterator[Any]:
    """An array as contiguous arrays that follow each other, each of about so many bytes."""
    if raw.flags.c_contiguous:
        yield from _row_slices(raw.reshape(-1), most // raw.itemsize)
    elif raw.nbytes <= most:
        yield np.ascontiguousarray(raw)
    elif _is_transposed(raw):
        with prefetched(
            _copied_by_tiles,
            _row_slices(raw, min(TILE_SIZE, MAX_CHUNK_BYTES // raw[0].nbytes)),
            TRANSPOSE_THREADS + 1,
            TRANSPOSE_THREADS,
        ) as turned:
            yield from turned
    elif raw.ndim > 1 and raw[0].nbytes > most:
        for part in raw:
            yield from _contiguous_chunks(part, most)
    else:
        yield from (np.ascontiguousarray(part) for part in _row_slices(raw, most // max(1, raw[0].nbytes)))


def _concatenated_chunks(raws: Sequence[Any]) -> Iterator[Any]:
    """Matrices beside each other, so many rows at a time."""
    step = max(1, min(TILE_SIZE, MAX_CHUNK_BYTES // max(1, sum(one[0].nbytes for one in raws))))
    rows = ([one[start : start + step] for one in raws] for start in range(0, len(raws[0]), step))
    with prefetched(_concatenated, rows, TRANSPOSE_THREADS + 1, TRANSPOSE_THREADS) as joined:
        yield from joined


def _concatenated(parts: Sequence[Any]) -> Any:
    return np.concatenate([_copied_by_tiles(one) if _is_transposed(one) else one for one in parts], axis=-1)


@contextmanager
def prefetched(
    made: Callable[[Any], Any], parts: Iterable[Any], most: int, threads: int = 1
) -> Iterator[Iterator[Any]]:
    """`map(made, parts)`, so many at most made by other threads before they are asked for; on leaving, no more."""
    rest = iter(parts)
    with ThreadPoolExecutor(threads) as pool:
        coming = deque(pool.submit(made, part) for part in islice(rest, most))

        def results() -> Iterator[Any]:
            while coming:
                done = coming.popleft().result()
                coming.extend(pool.submit(made, part) for part in islice(rest, 1))
                yield done

        try:
            yield results()
        finally:
            pool.shutdown(cancel_futures=True)


def _row_slices(raw: Any, rows: int) -> Iterator[Any]:
    """An array in pieces along its first axis, each made when it is asked for."""
    step = max(1, rows)
    return (raw[start : start + step] for start in range(0, len(raw), step))


def _is_transposed(raw: Any) -> bool:
    return raw.ndim == 2 and bool(raw.strides[0] < raw.strides[1])  # noqa: PLR2004 - rows and columns


def _copied_by_tiles(rows: Any) -> Any:
    """Rows of a transposed matrix one after the other, tile by tile: along its columns they lie a whole row apart."""
    made = np.empty(rows.shape, rows.dtype)
    for start in range(0, rows.shape[1], TILE_SIZE):
        made[:, start : start + TILE_SIZE] = np.ascontiguousarray(rows[:, start : start + TILE_SIZE].T).T
    return made
