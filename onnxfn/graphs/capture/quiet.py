"""Silence for one thread: what torch, transformers and onnxscript print, warn and log while they trace."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

SOURCES = ("torch", "transformers", "onnxscript", "onnx_ir", "onnx")


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that the tracing libraries say in this thread is heard; other threads and the host's own logs are."""
    thread = threading.get_ident()
    with ExitStack() as undo:
        undo.enter_context(warnings.catch_warnings())
        # torch copies its own records through copyreg, which then is the module that warns of them.
        warnings.filterwarnings("ignore", module=rf"({'|'.join((*SOURCES, 'copyreg'))})\b")
        warnings.showwarning = _unshown(thread)
        for name in ("stdout", "stderr"):
            undo.callback(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, _hushed(getattr(sys, name), thread))
        for handler in _handlers():
            muted = _muted(thread)
            handler.addFilter(muted)
            undo.callback(handler.removeFilter, muted)
        yield


def _hushed(stream: Any, thread: int) -> Any:
    """The stream, deaf to one thread."""

    def write(text: str) -> int:
        return len(text) if threading.get_ident() == thread else int(stream.write(text))

    return SimpleNamespace(write=write, flush=lambda: stream and stream.flush(), isatty=lambda: False)


def _unshown(thread: int) -> Any:
    """A way to show warnings that shows none of one thread."""
    shown = warnings.showwarning

    def show(*warning: Any, **places: Any) -> None:
        if threading.get_ident() != thread:
            shown(*warning, **places)

    return show


def _muted(thread: int) -> Any:
    """A logging filter that drops what the tracing libraries log in one thread."""

    def heard(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.name.partition(".")[0] not in SOURCES

    return heard


def _handlers() -> list[logging.Handler]:
    children = [name for name in logging.Logger.manager.loggerDict if name.partition(".")[0] in SOURCES]
    loggers = [logging.getLogger(), *map(logging.getLogger, children)]
    last = [logging.lastResort] if logging.lastResort else []
    return list(dict.fromkeys([*(handler for logger in loggers for handler in logger.handlers), *last]))
