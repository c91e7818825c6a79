"""Where an export goes, what must not be there, and the folder of an export without a path."""

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

from onnxfn.export.report.report_file import REPORT_FILE, is_foreign_report
from onnxfn.specs.errors import OutputExists, WriteFailed
from onnxfn.specs.os_errors import is_possible_path, write_errors
from onnxfn.weights.journal import STAGING_PREFIX

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


@frozen
class Destination:
    """Where an export goes.

    Attributes:
        path: A folder, or a file that ends in `.onnx`.
        subfolder: The folder in it that holds the ONNX files, as the layout says.
    """

    path: Path
    subfolder: str = ""

    @property
    def is_file(self) -> bool:
        """Whether the path names a single ONNX file."""
        return self.path.suffix == ".onnx"

    @property
    def folder(self) -> Path:
        """The folder that gets the files."""
        return self.path.parent if self.is_file else self.path

    @property
    def onnx_folder(self) -> Path:
        """The folder that gets the ONNX files."""
        return self.folder if self.is_file else self.folder / self.subfolder


def check_destination(path: Path, *, overwrite: bool) -> None:
    """Raises OutputExists if something is at the path already, unless `overwrite`.

    In any case it raises OutputExists for what an export never replaces: a file where a folder is needed, a folder
    where a file is needed, and a link to nothing. It raises WriteFailed for a path that no system can have, or that the
    system refuses to read.
    """
    if not is_possible_path(path):
        raise WriteFailed(
            f"cannot write {str(path)!r}: no path has a null character or half of a surrogate pair; choose another path"
        )
    with write_errors(path):
        _check_kind(path)
        exists = path.exists() and (path.suffix == ".onnx" or not _is_empty(path))
    if overwrite and path.suffix != ".onnx" and is_foreign_report(path / REPORT_FILE):
        raise OutputExists(f"onnxfn did not write {path / REPORT_FILE}, and would replace it; choose another path")
    if exists and not overwrite:
        raise OutputExists(
            f"{path} exists{'' if path.is_file() else ' and is not empty'}; "
            "choose another path, or pass overwrite=True (--overwrite)"
        )


def _check_kind(path: Path) -> None:
    """Raises OutputExists if no export can be written to a path, because of what it or a folder above it is."""
    above = [parent for parent in path.absolute().parents if os.path.lexists(parent) and not parent.is_dir()]
    if above:
        raise OutputExists(f"{path} is below {above[-1]}, which is not a folder; choose another path")
    if path.is_symlink() and not path.exists():
        target = path.readlink()
        raise OutputExists(f"{path} is a link to {target}, which does not exist; create that, or choose another path")
    if path.suffix == ".onnx" and path.is_dir():
        raise OutputExists(f"{path} is a folder and ends in .onnx; name a file in it, or another folder")
    if path.suffix != ".onnx" and path.exists() and not path.is_dir():
        raise OutputExists(f"{path} is a file and does not end in .onnx; name a folder, or a file that does")


def _is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing, staging folders of exports excepted."""
    return all(entry.name.startswith(STAGING_PREFIX) for entry in folder.iterdir())
