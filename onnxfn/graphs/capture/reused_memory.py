"""The memory of large tensors that are freed, kept for the next ones."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from onnxfn.specs.dummies import Array

LARGE_INPUTS = 400_000
"""The numbers of the inputs from which on a run makes tensors that the C library returns to the system: 3 images."""

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""The numbers of these parameters in `malloc.h` of glibc."""

NEVER = -1
"""The threshold with which nothing is returned before `malloc_trim`."""

USUAL = MappingProxyType({MMAP_MAX: 65536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20})
"""What glibc has by itself in a process that has freed tensors of 32 MiB: it raises its thresholds up to these."""


@contextmanager
def reused_memory(inputs: Mapping[str, Array]) -> Iterator[None]:
    """A context in which the memory of a freed tensor is that of the next ones, if the inputs of the run are large.

    glibc returns the memory of tensors above 32 MiB to the system when they are freed, and the system clears it again
    for the next tensor. That is up to a third of the time of a run on large images. The memory is returned at the end
    of the context. Another C library, and a thread other than the main one, do as before.

    glibc cannot be asked for its thresholds: a program that has set its own finds the usual ones afterwards. See
    `man 3 mallopt`.
    """
    library = _glibc() if sum(array.size for array in inputs.values()) >= LARGE_INPUTS else None
    if library is None:
        yield
        return
    try:
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, NEVER)
        yield
    finally:
        for parameter, value in USUAL.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)


def _glibc() -> Any:
    """The C library of this process if it is glibc, else None."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has no library of the process
        return None
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
