"""Files of a cache folder: written atomically, marked when they are used, deleted when the folder is too large."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from attrs import frozen

MAX_CACHE_BYTES = 512 * 2**20
"""Bytes that the files of a cache folder may have together, unless the caller sets another limit."""

PARTIAL = ".partial"
"""Suffix of a file that is being written."""

# A cache may share its folder with files of the user: only names that onnxfn gives are counted and deleted.
_ENTRY = re.compile(r"[0-9a-f]{64}\.(onnx|json)(\.\w+\.partial)?")


@frozen
class CacheEntry:
    """A file of a cache folder.

    Attributes:
        path: The file.
        size: Its size in bytes.
        used: When it was last written or read, in seconds since 1970.
    """

    path: Path
    size: int
    used: float


def default_cache_folder() -> Path:
    """The cache folder of the command line: `onnxfn/templates` in the user's cache. It may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxfn" / "templates"


def cache_entries(folder: Path) -> tuple[CacheEntry, ...]:
    """The files that onnxfn wrote into a cache folder, of every version of onnxfn, the most recently used first.

    Args:
        folder: The cache folder. It does not have to exist.

    Returns:
        One entry per file. Other files of the folder are left out.

    Example:
        >>> cache_entries(Path("no such folder"))
        ()
    """
    entries = filter(None, map(_entry, folder.glob("*")))
    return tuple(sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True))


def clear_cache(folder: Path) -> tuple[CacheEntry, ...]:
    """Deletes the files that onnxfn wrote into a cache folder; returns those that it deleted.

    Args:
        folder: The cache folder. It does not have to exist.

    Returns:
        One entry per deleted file. Other files of the folder stay.

    Example:
        >>> clear_cache(Path("no such folder"))
        ()
    """
    entries = cache_entries(folder)
    delete_files(entries)
    return tuple(entry for entry in entries if not entry.path.exists())


def beyond_limit(entries: Iterable[CacheEntry], max_bytes: int) -> tuple[CacheEntry, ...]:
    """The entries to delete so that the others have at most `max_bytes` bytes: those that were not used for longest.

    >>> old, new = CacheEntry(Path("old"), size=6, used=1.0), CacheEntry(Path("new"), size=6, used=2.0)
    >>> [entry.path.name for entry in beyond_limit([old, new], max_bytes=10)]
    ['old']
    """
    newest_first = sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True)
    totals = accumulate(entry.size for entry in newest_first)
    return tuple(entry for entry, total in zip(newest_first, totals, strict=True) if total > max_bytes)


def delete_files(entries: Iterable[CacheEntry]) -> None:
    """Deletes files; one that is gone already, or cannot be deleted, is no error."""
    for entry in entries:
        with suppress(OSError):
            entry.path.unlink()


def read_file(file: Path) -> bytes:
    """The content of a file of the cache, which is marked as used now. Raises OSError when it cannot be read."""
    content = file.read_bytes()
    with suppress(OSError):  # a folder that cannot be written can still be read
        os.utime(file)
    return content


def write_file(file: Path, content: bytes, max_bytes: int = MAX_CACHE_BYTES) -> None:
    """Writes a file of the cache; then deletes the least recently used files while there are more than `max_bytes`.

    The file appears whole or not at all. A full disk or a folder that cannot be written is no error: the cache is then
    without the file.
    """
    with suppress(OSError), _partial_file(file) as partial:
        partial.write_bytes(content)
        partial.replace(file)
    delete_files(beyond_limit(cache_entries(file.parent), max_bytes))


@contextmanager
def _partial_file(file: Path) -> Iterator[Path]:
    """A new empty file in the folder of `file`; on leaving, it is deleted if it is still there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", suffix=PARTIAL, dir=file.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _entry(path: Path) -> CacheEntry | None:
    """The entry of a path; None when it is no file of onnxfn, or was deleted meanwhile."""
    try:
        status = path.stat()
    except OSError:
        return None
    return CacheEntry(path, status.st_size, status.st_mtime) if _ENTRY.fullmatch(path.name) else None
