"""Work in another thread, during which this thread calls a function several times a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from typing import Any

from onnxfn.specs.stored.reports import Tick

PERIOD = 0.05
"""Seconds between two calls."""


def watched(function: Callable[[], Any], tick: Tick, stop: Callable[[], None]) -> Any:
    """What a function returns, computed in another thread; meanwhile this thread calls `tick`.

    If `tick` raises, `stop` is called. The end of the function is not awaited: ONNX Runtime may take seconds until it
    sees that it is to stop. What it returns then is dropped.
    """
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
