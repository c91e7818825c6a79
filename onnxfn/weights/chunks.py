"""The bytes of a tensor in chunks, also in another float dtype; work in another thread that reports progress."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from threading import Event
from typing import Any

import numpy as np

from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.short_repr import counted as number_of
from onnxfn.specs.stored.reports import Tick, no_tick


def watched(function: Callable[[], Any], tick: Tick, stop: Callable[[], None]) -> Any:
    """The result of a function in another thread; this one calls `tick`. If that raises, `stop` is called."""
    stopped = Event()

    def result_if_wanted() -> Any:
        result = function()
        return None if stopped.is_set() else result

    def stop_thread() -> None:
        stopped.set()
        stop()
        pool.shutdown(wait=False)

    pool = ThreadPoolExecutor(1)
    with stopped_on_error(stop_thread):
        result = result_of(pool.submit(result_if_wanted), tick)
    pool.shutdown()
    return result


def result_of(future: Future[Any], tick: Tick) -> Any:
    """The result of a future; `tick` is called while it is computed."""
    while not wait([future], 0.05).done:  # seconds between two calls
        tick()
    return future.result()


@contextmanager
def stopped_on_error(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` if an exception leaves the context, before threads outside it are awaited."""
    try:
        yield
    except BaseException:
        stop()
        raise


def counted(chunks: Iterable[Any], tick: Tick, before: int, total: int) -> Iterator[Any]:
    """The chunks, of bytes or arrays of bytes; `tick` is called after each with the bytes so far and in all."""
    completed = before
    for chunk in chunks:
        yield chunk
        completed += len(chunk)
        tick(completed, total)


CHUNK_BYTES = 1 << 20
"""Bytes of a chunk: it fits the cache of a core."""

MAX_CHUNK_BYTES = 1 << 26
"""Bytes that no chunk exceeds. A chunk of a transposed matrix is `TILE_SIZE` rows, fewer if the rows are very long."""

TILE_SIZE = 128
"""Rows and columns of a tile. A matrix is transposed tile by tile: two tiles fit the cache of a core."""

PARTS = "onnxfn.parts"
"""The key in the `meta` of a lazy tensor that holds a function to the contiguous arrays of its elements."""

KEY = "onnxfn.key"
"""The key in the `meta` of a lazy tensor for a value that is equal for tensors of the same elements, or None."""


def lazy_tensor(
    dtype: Any, shape: Iterable[int], parts: Callable[[], Iterator[Any]], key: Any, name: str | None = None
) -> Any:
    """An `onnx_ir` tensor whose elements are computed each time it is read, as contiguous arrays in a row."""
    import onnx_ir

    sizes = tuple(shape)

    def tensor() -> Any:
        data = b"".join(part.tobytes() for part in parts())
        return onnx_ir.Tensor(np.frombuffer(data, dtype.numpy()).reshape(sizes), dtype, name=name)

    lazy = onnx_ir.LazyTensor(tensor, dtype=dtype, shape=onnx_ir.Shape(sizes), name=name)
    lazy.meta[PARTS], lazy.meta[KEY] = parts, key
    return lazy


def chunks(tensor: Any, size: int = CHUNK_BYTES) -> Iterator[Any]:
    """The bytes of an `onnx_ir` tensor, row-major, as uint8 arrays of about `size` bytes, as views where possible."""
    if PARTS in getattr(tensor, "meta", {}):
        parts = tensor.meta[PARTS]()
    elif (array := viewed_array(tensor)) is not None:
        parts = _contiguous_chunks(array, size)
    else:
        parts = [np.frombuffer(tensor.tobytes(), np.uint8)]
    yield from (part.reshape(-1).view(np.uint8) for part in parts)


def first_difference(tensor: Any, data: Any, tick: Tick = no_tick) -> int | None:
    """The first place where the bytes of a tensor are not those of an array of bytes; None if they are the same."""
    start = 0
    for chunk in chunks(tensor):
        tick()
        other = data[start : start + len(chunk)]
        if not np.array_equal(chunk, other):
            return start + int((*np.flatnonzero(chunk[: len(other)] != other)[:1], len(other))[0])
        start += len(chunk)
    return None if start == len(data) else start


def memory_key(tensor: Any) -> Any:
    """A value that is equal for tensors of the same bytes in memory; None if unknown."""
    if KEY in getattr(tensor, "meta", {}):
        return tensor.meta[KEY]
    array = viewed_array(tensor)
    if array is None or not array.size:
        return None
    start = array.__array_interface__["data"][0]
    return (start, array.nbytes) if array.flags.c_contiguous else (start, array.shape, array.strides, array.itemsize)


def element_view(tensor: Any) -> tuple[Any, Any]:
    """The bits of the elements of an `onnx_ir` tensor as an array of integers, and their dtype in torch."""
    from onnx_ir.tensor_adapters import to_torch_dtype

    array = viewed_array(tensor)
    array = tensor.numpy() if array is None else array
    return array.view(f"i{array.itemsize}"), to_torch_dtype(tensor.dtype)


def viewed_array(tensor: Any) -> Any:
    """A numpy array, maybe of another dtype, that views the memory of an `onnx_ir` tensor; None if nothing can."""
    if PARTS in getattr(tensor, "meta", {}):
        return None
    raw: Any = getattr(tensor, "raw", None)
    if hasattr(raw, "untyped_storage") and raw.numel() * raw.element_size() == tensor.nbytes:
        import torch

        plain = raw.detach().resolve_conj().resolve_neg()
        # numpy lacks some dtypes of torch. Elements of 16 bytes (complex128) have no integer dtype; they keep theirs.
        integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return plain.view(integers.get(plain.element_size(), plain.dtype)).numpy()
    return raw if isinstance(raw, np.ndarray) and raw.itemsize == tensor.dtype.itemsize else None


def _contiguous_chunks(array: Any, size: int) -> Iterator[Any]:
    """The elements of an array in row-major order, as contiguous arrays of about `size` bytes."""
    if array.flags.c_contiguous:
        yield from _row_slices(array.reshape(-1), size // array.itemsize)
    elif array.nbytes <= size:
        yield np.ascontiguousarray(array)
    elif array.ndim == 2 and array.strides[0] < array.strides[1]:  # noqa: PLR2004 - a transposed matrix
        yield from map(_copied_by_tiles, _row_slices(array, min(TILE_SIZE, MAX_CHUNK_BYTES // array[0].nbytes)))
    elif array.ndim > 1 and array[0].nbytes > size:
        for row in array:
            yield from _contiguous_chunks(row, size)
    else:
        yield from (np.ascontiguousarray(part) for part in _row_slices(array, size // max(1, array[0].nbytes)))


@contextmanager
def prefetched(
    function: Callable[[Any], Any], items: Iterable[Any], most: int, threads: int = 1, tick: Tick = no_tick
) -> Iterator[Iterator[Any]]:
    """`map(function, items)` within a context, computed by other threads, up to `most` results ahead of the caller."""
    # On exit, calls that have not begun are cancelled. `tick` is called while the caller waits for a result.
    rest = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        futures = deque(pool.submit(function, item) for item in islice(rest, most))

        def results() -> Iterator[Any]:
            while futures:
                result = result_of(futures.popleft(), tick)
                futures.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result

        try:
            yield results()
        finally:
            pool.shutdown(cancel_futures=True)


def _row_slices(array: Any, rows: int) -> Iterator[Any]:
    """Slices of an array along its first axis, each with `rows` rows."""
    step = max(1, rows)
    return (array[start : start + step] for start in range(0, len(array), step))


def _copied_by_tiles(rows: Any) -> Any:
    """A contiguous copy of rows of a transposed matrix. Row by row it would miss the cache at every element."""
    copy = np.empty(rows.shape, rows.dtype)
    for start in range(0, rows.shape[1], TILE_SIZE):
        copy[:, start : start + TILE_SIZE] = np.ascontiguousarray(rows[:, start : start + TILE_SIZE].T).T
    return copy


def converted(tensor: Any, dtype: Any) -> Any:
    """An `onnx_ir` tensor in another float dtype, computed when read; InvalidSpec for a value that it cannot hold."""
    if tensor.dtype == dtype:
        return tensor
    key = memory_key(tensor)
    in_dtype = None if key is None else (key, dtype)
    return lazy_tensor(dtype, tensor.shape, lambda: _converted_chunks(tensor, dtype), in_dtype, tensor.name)


def _converted_chunks(tensor: Any, dtype: Any) -> Iterator[Any]:
    """The elements of a tensor in a dtype of `onnx_ir`, as arrays of bytes; then InvalidSpec if one does not fit."""
    import torch
    from onnx_ir.tensor_adapters import to_torch_dtype

    before, after = to_torch_dtype(tensor.dtype), to_torch_dtype(dtype)
    is_narrower = torch.finfo(after).max < torch.finfo(before).max
    count, largest = 0, 0.0
    for chunk in chunks(tensor):
        # torch warns of an array that it could write to by mistake, as one of a mapped file
        values = torch.from_numpy(chunk if chunk.flags.writeable else chunk.copy()).view(before)
        result = values.to(after)
        lost = values[torch.isinf(result) & torch.isfinite(values)].abs() if is_narrower else values[:0]
        if lost.numel():
            count, largest = count + lost.numel(), max(largest, float(lost.max()))
        yield result.view(torch.uint8).numpy()
    if count:
        name = str(after).removeprefix("torch.")
        raise InvalidSpec(
            f"{tensor.name} has {number_of(count, 'values')} that {name} cannot hold, the largest {largest:.3g}; "
            'export in another dtype: with_dtypes(spec, float="float32")'
        )
