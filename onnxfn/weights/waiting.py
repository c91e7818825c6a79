"""Work in another thread, during which this thread calls a function several times a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from onnxfn.specs.reports import Tick

PERIOD = 0.2
"""Seconds between two calls."""


def watched(function: Callable[[], Any], tick: Tick, stop: Callable[[], None]) -> Any:
    """What a function returns, computed in another thread; meanwhile this thread calls `tick`.

    If `tick` raises, `stop` is called, and the end of the function is awaited.
    """
    with ThreadPoolExecutor(1) as pool, stopped_on_error(stop):
        return result_of(pool.submit(function), tick)


def result_of(future: Future[Any], tick: Tick) -> Any:
    """The result of a future; `tick` is called while it is computed."""
    while not wait([future], PERIOD).done:
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
