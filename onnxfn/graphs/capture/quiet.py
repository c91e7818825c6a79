"""Silence for one thread: what torch, transformers and onnxscript print, warn and log while they trace."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import frozen

LOCK = threading.RLock()
"""Held while a model is traced or run: torch.export has state of its own, so a process traces one model at a time."""

SOURCES = ("torch", "transformers", "onnxscript", "onnx_ir", "onnx")
"""Packages whose warnings and logs are dropped."""


@frozen(eq=False)
class QuietStream:
    """A text stream that drops what one thread writes, and is the wrapped stream in everything else.

    Attributes:
        stream: The wrapped stream.
        thread: Identifier of the thread whose text is dropped.
        ended: Set when that thread is heard again. A library may have stored this object meanwhile, as the handler of
            transformers does: it must then write to the wrapped stream.
    """

    stream: Any
    thread: int
    ended: threading.Event

    def write(self, text: str) -> int:
        """Writes text to the wrapped stream, or drops it; returns the number of characters."""
        return len(text) if _is_quiet(self.thread, self.ended) else int(self.stream.write(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def quiet() -> Iterator[None]:
    """Drops what the tracing libraries print, warn and log in this thread; other threads are heard as before.

    One thread at a time is quiet, since `LOCK` is held: a second thread waits. `sys.stdout` and `sys.stderr` are the
    host's again when the last `quiet` is left, in whatever order several are entered and left.
    """
    thread, ended = threading.get_ident(), threading.Event()
    with LOCK, ExitStack() as undo:
        undo.enter_context(warnings.catch_warnings())
        # torch copies its own records through copyreg, which is then the module that warns of them.
        warnings.filterwarnings("ignore", module=rf"({'|'.join((*SOURCES, 'copyreg'))})\b")
        warnings.showwarning = _show_of_other_threads(thread, ended)
        undo.callback(_restore_streams)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is not None:  # a program without a console has none
                setattr(sys, name, QuietStream(getattr(sys, name), thread, ended))
        for handler in _handlers():
            muted = _log_filter(thread)
            handler.addFilter(muted)
            undo.callback(handler.removeFilter, muted)
        undo.callback(ended.set)
        yield


def _restore_streams() -> None:
    """Unwraps `sys.stdout` and `sys.stderr` up to a `quiet` that was not left yet."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        while isinstance(stream, QuietStream) and stream.ended.is_set():
            stream = stream.stream
        setattr(sys, name, stream)


def _is_quiet(thread: int, ended: threading.Event) -> bool:
    """Whether the running thread is this one, and is still quiet."""
    return threading.get_ident() == thread and not ended.is_set()


def _show_of_other_threads(thread: int, ended: threading.Event) -> Any:
    """A replacement for `warnings.showwarning` that shows no warning of one thread until `ended` is set."""
    show_warning = warnings.showwarning

    def show(*arguments: Any, **named: Any) -> None:
        if not _is_quiet(thread, ended):
            show_warning(*arguments, **named)

    return show


def _log_filter(thread: int) -> Any:
    """A logging filter that drops what the tracing libraries log in one thread."""

    def accepts(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.name.partition(".")[0] not in SOURCES

    return accepts


def _handlers() -> list[logging.Handler]:
    """The handlers of the root logger and of the loggers of the tracing libraries."""
    children = [name for name in logging.Logger.manager.loggerDict if name.partition(".")[0] in SOURCES]
    loggers = [logging.getLogger(), *map(logging.getLogger, children)]
    last_resort = [logging.lastResort] if logging.lastResort else []
    return list(dict.fromkeys([*(handler for logger in loggers for handler in logger.handlers), *last_resort]))
