"""Silence for one thread: what torch, transformers and onnxscript warn and log while they trace.

`sys.stdout` and `sys.stderr` stay as they are, since other threads use them. None of these libraries prints while a
model is traced, with one exception that `capture.exported_program` avoids.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import frozen

from onnxfn.specs.stored.reports import StageTimer

LOCK = threading.RLock()
"""Held while a model is traced or run: torch.export has state of its own, so a process traces one model at a time."""

SOURCES = ("torch", "transformers", "onnxscript", "onnx_ir", "onnx")
"""Packages whose logs are dropped."""


POLL = 0.2
"""Seconds between two looks at a lock that another thread holds."""


@contextmanager
def tracing_alone(timed: StageTimer, part: str) -> Iterator[None]:
    """Holds `LOCK`. While another thread holds it, the stage `wait` runs."""
    if not LOCK.acquire(blocking=False):
        with timed("wait", part) as tick:
            while not LOCK.acquire(timeout=POLL):
                tick()
    try:
        yield
    finally:
        LOCK.release()


@frozen(eq=False)
class ThreadPattern:
    """Matches every text in one thread, and none in others: the pattern of a warning filter.

    Attributes:
        thread: The identifier of the thread.
        ended: Set when that thread is heard again. Another thread may have saved the list of filters meanwhile, and
            restore it later, with this pattern in it.
    """

    thread: int
    ended: threading.Event

    def match(self, _: str) -> bool:
        """Whether the running thread is this one, and is still quiet."""
        return threading.get_ident() == self.thread and not self.ended.is_set()


@contextmanager
def quiet() -> Iterator[None]:
    """Drops what is warned and what the tracing libraries log in this thread; other threads are heard as before.

    One thread at a time is quiet, since `LOCK` is held: a second thread waits.
    """
    thread = ThreadPattern(threading.get_ident(), threading.Event())
    ignored = ("ignore", None, Warning, thread, 0)  # no other form of a filter looks at the thread
    with traces_awaited(), ExitStack() as undo:
        warnings.filters.insert(0, ignored)  # type: ignore[attr-defined]
        undo.callback(_remove_filter, ignored)
        for handler in _handlers():
            muted = _log_filter(thread.thread)
            handler.addFilter(muted)
            undo.callback(handler.removeFilter, muted)
        undo.callback(thread.ended.set)
        yield


@contextmanager
def traces_awaited() -> Iterator[None]:
    """Holds `LOCK`. Before, and from time to time while it waits, it runs an operator of torch, if torch is imported.

    A check calls a function at each operator (`ticking.py`), which reports that and may stop it.
    """
    torch = sys.modules.get("torch")
    run: Any = int if torch is None else torch.empty
    run(0)
    while not LOCK.acquire(timeout=POLL):
        run(0)
    try:
        yield
    finally:
        LOCK.release()


def _remove_filter(warning_filter: Any) -> None:
    """Removes a warning filter, if no `catch_warnings` of another thread did so already."""
    if warning_filter in warnings.filters:
        warnings.filters.remove(warning_filter)  # type: ignore[attr-defined]


def _log_filter(thread: int) -> Any:
    """A logging filter that drops what the tracing libraries log in one thread."""

    def accepts(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.name.partition(".")[0] not in SOURCES

    return accepts


def _handlers() -> list[logging.Handler]:
    """The handlers of the root logger and of the loggers of the tracing libraries."""
    children = [
        logger
        for name, logger in [*logging.Logger.manager.loggerDict.items()]  # other threads may add loggers
        if isinstance(logger, logging.Logger) and logger.handlers and name.partition(".")[0] in SOURCES
    ]
    loggers = [logging.getLogger(), *children]
    last_resort = [logging.lastResort] if logging.lastResort else []
    return list(dict.fromkeys([*(handler for logger in loggers for handler in logger.handlers), *last_resort]))
