"""Where an export without a path goes: a folder that its result owns, and that is deleted with the result."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.specs.os_errors import write_errors

PREFIX = "onnxfn-"
"""How the names of these folders begin."""


@frozen(eq=False)
class PrivateFolder:
    """A folder for temporary files. It is deleted when nothing refers to this record any more, at the latest at exit.

    A folder serves several parts, external data of any size and ONNX Runtime, which maps external data from its file.
    A `ModelProto` in memory would do none of these: protobuf ends at 2 GiB.

    Attributes:
        path: The path of the folder.
    """

    path: Path


def private_folder() -> PrivateFolder:
    """A new folder where the system has its temporary files: `TMPDIR` chooses another disk."""
    with write_errors(Path(tempfile.gettempdir())):
        folder = PrivateFolder(Path(tempfile.mkdtemp(prefix=PREFIX)))
    weakref.finalize(folder, _delete, folder.path, os.getpid())
    return folder


@contextmanager
def export_target(path: Any) -> Iterator[tuple[Path, PrivateFolder | None]]:
    """The path that an export writes to, and the folder that its result owns, if it is one of these.

    For None that is a new folder, for a file object a file in one. The folder is deleted if the export fails.
    """
    if isinstance(path, str | os.PathLike):
        yield Path(path), None
        return
    owner = private_folder()
    try:
        yield owner.path / ("export" if path is None else "model.onnx"), owner
    except BaseException:
        _delete(owner.path, os.getpid())
        raise


def _delete(folder: Path, process: int) -> None:
    """Deletes a folder, unless this process is a copy of the one that created it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
