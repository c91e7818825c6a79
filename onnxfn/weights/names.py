"""Names that a file of anybody brings: `is_inside` or `name_fault` judges each before a file of that name is opened."""

import errno
import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from onnxfn.specs.errors import is_possible_path

CACHE_PREFIX, SNAPSHOTS, BLOBS = "models--", "snapshots", "blobs"
"""In the cache of the hub `models--<name>/snapshots/<revision>` is a folder of links to `models--<name>/blobs`.

From version 2 of the hub's client on, these may be links to `blobs` of the cache, where files have the names of hashes.
"""


def is_inside(name: Any) -> bool:
    """Whether a relative name stays inside its folder, on every system. Links are not followed: see `name_fault`."""
    if not isinstance(name, str) or not is_possible_path(name):
        return False
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    absolute = PurePosixPath(name).is_absolute() or bool(PureWindowsPath(name).anchor)
    return bool(parts) and not absolute and ".." not in parts


def name_fault(name: Any, folder: Path) -> str | None:
    """Why the file that a name in a file stands for is not opened; None for a file or a folder inside, or for none."""
    return file_fault(folder / name, folder) if is_inside(name) else "is outside its folder"


def file_fault(file: Path, folder: Path) -> str | None:
    """Why a file in a folder is not opened, if it leads out of the folder and of the hub's blobs for it; else None."""
    target, root = Path(os.path.realpath(file)), Path(os.path.realpath(folder))
    snapshots = next((parent for parent in root.parents if parent.name == SNAPSHOTS), root)
    repository = snapshots.parent
    is_cached = repository.name.startswith(CACHE_PREFIX) and snapshots != root
    roots = (root, repository / BLOBS, repository.parent / BLOBS) if is_cached else (root,)
    if not any(target.is_relative_to(each) for each in roots):
        return "is a link out of its folder"
    try:
        mode = target.stat().st_mode
    except OSError as error:
        return "has too long a name" if error.errno == errno.ENAMETOOLONG else None
    # A named pipe waits for a writer when it is opened, and a device may do anything.
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is not a regular file"


def read_regular(file: Path) -> bytes:
    """The content of a file; OSError for a named pipe or a device, too, which are not opened."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file.read_bytes()
