"""Locks between processes. The system frees the lock of a process that ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds the lock of a folder; yields False, without it, where there are no such locks, or if it is not free.

    With `wait` it waits until the lock is free.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield lock(descriptor, wait=wait)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> bool:
    """Locks an open file; returns False if that fails, as it is locked already or the system has no such locks."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a file, as far as the system can tell; False if there is no such file."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not lock(descriptor, wait=False)
    finally:
        os.close(descriptor)
