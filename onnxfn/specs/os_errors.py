"""Errors of the operating system as text: what failed, at which path, and what to do."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from onnxfn.specs.errors import OnnxfnError, WriteFailed

ADVICE: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOSPC: "free space, or choose a path on another disk",
        errno.EDQUOT: "free space, or choose a path on another disk",
        errno.EFBIG: "the system limits the size of a file (ulimit -f); raise the limit, or choose another file system",
        errno.EACCES: "change the permissions, or choose another path",
        errno.EPERM: "change the permissions, or choose another path",
        errno.EROFS: "choose a path on another file system",
        errno.ENAMETOOLONG: "choose a shorter name",
        errno.ENOTDIR: "a part of the path is a file; choose a path below a folder",
        errno.EEXIST: "choose another path",
        errno.EISDIR: "a folder has the name of a file; rename it",
        errno.ELOOP: "the path is a link to itself; choose another path",
        errno.EMFILE: "the system limits the number of open files (ulimit -n); raise the limit",
        errno.EXDEV: "choose a path on one file system",
        errno.EIO: "the disk cannot be read or written",
    }
)
"""Number of an error of the operating system -> what a user can do."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The errors whose message has the number of free bytes."""


def is_possible_path(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this path can exist: no path has a null character, or half of a surrogate pair.

    >>> is_possible_path("out/model.onnx"), is_possible_path(chr(0)), is_possible_path(chr(0xD800))
    (True, False, False)
    """
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@contextmanager
def write_errors(path: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Raises WriteFailed for an error of the operating system inside, while files are written to a path."""
    try:
        yield
    except OnnxfnError:
        raise
    except OSError as error:
        raise WriteFailed(f"cannot write {path}: {os_error_text(error, path, needed_bytes)}") from error


def os_error_text(error: OSError, path: Path | None = None, needed_bytes: int = 0) -> str:
    """What failed, where, and what to do. `path` is the path of the command, which the error need not be about.

    >>> os_error_text(PermissionError(errno.EACCES, "Permission denied", "/root/out"))
    'permission denied: /root/out; change the permissions, or choose another path'
    """
    if error.errno == errno.ENOENT and not _has_current_folder():
        return "the current folder does not exist any more; change to another folder"
    reason = str(error.strerror or error or type(error).__name__)
    targets = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    clauses = (
        ": ".join((reason[:1].lower() + reason[1:], *(name for name in targets[-1:] if name != str(path)))),
        _space(path, needed_bytes) if error.errno in NO_SPACE and path is not None else "",
        ADVICE.get(error.errno or 0, ""),
    )
    return "; ".join(filter(None, clauses))


def _space(path: Path, needed_bytes: int) -> str:
    """The free bytes on the file system of a path, and the bytes that the weights need, if they are known."""
    existing = next((folder for folder in (path, *path.parents) if folder.is_dir()), Path())
    weights = f"the weights take {needed_bytes:,} bytes, " if needed_bytes else ""
    return f"{weights}{shutil.disk_usage(existing).free:,} bytes are free"


def _has_current_folder() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False
