"""Runs a function in a process of its own that is ended when it uses too much time or memory."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from attrs import frozen

from onnxfn.export.batch.records import JobLimits

PERIOD = 0.05
"""Seconds between two looks at the memory of the process."""

READ_BYTES = 2**16
PR_SET_PDEATHSIG = 1
"""Linux: the option of prctl(2) that names the signal for the death of the parent process."""

_ANONYMOUS = re.compile(r"^RssAnon:\s*(\d+) kB", re.MULTILINE)

Ending = Literal["returned", "timed out", "out of memory", "lost"]


@frozen
class Ended:
    """How a process ended.

    Attributes:
        ending: `returned`, `timed out`, `out of memory`, or `lost`: another program or the system ended it.
        value: What the function returned; None if it did not return.
        seconds: How long the process ran.
        memory_bytes: The most anonymous memory that was seen.
    """

    ending: Ending
    value: Any
    seconds: float
    memory_bytes: int


def run_in_process(call: Callable[[], Any], limits: JobLimits, is_wanted: Callable[[], bool]) -> Ended:
    """Calls a function in a copy of this process, and waits until that ends, or ends it.

    The process starts with all modules that this one has imported, so it starts in milliseconds. It is ended if it
    uses more than its limits, or as soon as it `is_wanted` no longer. The function must not raise an exception.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _run(call, writer)
    os.close(writer)
    start, peak, received, ending = perf_counter(), 0, b"", None
    while ending is None:
        is_readable = select.select([reader], [], [], PERIOD)[0]
        block = os.read(reader, READ_BYTES) if is_readable else b""
        received += block
        peak = max(peak, _anonymous_bytes(process))
        if is_readable and not block:
            break
        ending = _reason_to_end(limits, perf_counter() - start, peak, is_wanted)
    if ending is not None:
        os.kill(process, signal.SIGKILL)
    os.close(reader)
    _, state = os.waitpid(process, 0)
    returned = ending is None and state == 0 and bool(received)
    value = pickle.loads(received) if returned else None  # noqa: S301 - written by a copy of this process
    return Ended(ending or ("returned" if returned else "lost"), value, perf_counter() - start, peak)


def _run(call: Callable[[], Any], writer: int) -> None:
    """Calls the function, writes what it returns to a pipe, and ends the process."""
    status = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(call(), stream)
        status = 0
    finally:
        os._exit(status)  # not the end of the program that this process is a copy of


def _reason_to_end(limits: JobLimits, seconds: float, peak: int, is_wanted: Callable[[], bool]) -> Ending | None:
    if limits.seconds is not None and seconds > limits.seconds:
        return "timed out"
    if limits.memory_bytes is not None and peak > limits.memory_bytes:
        return "out of memory"
    return None if is_wanted() else "lost"


def _anonymous_bytes(process: int) -> int:
    """The anonymous memory of a process; 0 where the system does not tell, or after it ended."""
    try:
        match = _ANONYMOUS.search(Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) * 1024 if match else 0
