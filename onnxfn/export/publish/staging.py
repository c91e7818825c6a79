"""The destination of an export, and its staging folder: `files`, `lock`, and `journal.json` while they move."""

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.export.publish.exchange import finish_moves, keep_newcomers
from onnxfn.export.report.report_file import REPORT_FILE, is_foreign_report
from onnxfn.specs.errors import OutputExists, WriteFailed, is_possible_path, write_errors
from onnxfn.weights.journal import (
    JOURNAL_FILE,
    NEW_JOURNAL_FILE,
    REPLACED_FILES,
    STAGED_FILES,
    STAGING_PREFIX,
    read_journal,
)
from onnxfn.weights.names import read_regular


@frozen(eq=False)
class PrivateFolder:
    """A folder for temporary files, deleted when nothing refers to this record any more, at the latest at exit."""

    # A `ModelProto` in memory would not do: protobuf ends at 2 GiB, and ONNX Runtime maps external data from files.

    path: Path


@contextmanager
def export_target(path: Any) -> Iterator[tuple[Path, PrivateFolder | None]]:
    """The path that an export writes to, and the temporary folder that its result owns, for None and a file object."""
    if isinstance(path, str | os.PathLike):
        yield Path(path), None
        return
    with write_errors(Path(tempfile.gettempdir())):
        owner = PrivateFolder(Path(tempfile.mkdtemp(prefix="onnxfn-")))
    weakref.finalize(owner, _delete, owner.path, os.getpid())
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
    """The destination of an export: a folder, or an `.onnx` file; `subfolder` in it holds the ONNX files."""

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
    """Raises OutputExists for what is at the path, unless `overwrite`; WriteFailed for a path of the wrong kind."""
    if not is_possible_path(path):
        raise WriteFailed(
            f"cannot write {str(path)!r}: no path has a null character or half of a surrogate pair; choose another path"
        )
    is_file = path.suffix == ".onnx"
    with write_errors(path):
        above = [parent for parent in path.absolute().parents if os.path.lexists(parent) and not parent.is_dir()]
        if above:
            raise OutputExists(f"{path} is below {above[-1]}, which is not a folder; choose another path")
        if path.is_symlink() and not path.exists():
            advice = "create that, or choose another path"
            raise OutputExists(f"{path} is a link to {path.readlink()}, which does not exist; {advice}")
        if is_file and path.is_dir():
            raise OutputExists(f"{path} is a folder and ends in .onnx; name a file in it, or another folder")
        if not is_file and path.exists() and not path.is_dir():
            raise OutputExists(f"{path} is a file and does not end in .onnx; name a folder, or a file that does")
        # A folder that holds nothing but what an export has begun is empty.
        exists = path.exists() and (is_file or any(not each.name.startswith(STAGING_PREFIX) for each in path.iterdir()))
    if overwrite and not is_file and is_foreign_report(path / REPORT_FILE):
        raise OutputExists(f"onnxfn did not write {path / REPORT_FILE}, and would replace it; choose another path")
    if exists and not overwrite:
        raise OutputExists(
            f"{path} exists{'' if path.is_file() else ' and is not empty'}; "
            "choose another path, or pass overwrite=True (--overwrite)"
        )


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds the lock of a folder or file; yields False if there is no such lock, or if it is taken, without `wait`."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe would wait for a writer
    except OSError:
        yield False
        return
    try:
        yield lock(descriptor, wait=wait)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool) -> bool:
    """Locks an open file; returns False if it is locked already, or if the system has no such locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a file, as far as the system can tell; False if there is no such file."""
    with locked(file, wait=False) as is_free:
        return file.exists() and not is_free


LOCK_FILE = "lock"
"""The file in a staging folder that its process locks. It holds the relative path of the destination."""


@contextmanager
def staging_folder(destination: Destination) -> Iterator[Path]:
    """An empty folder, deleted at the end, on a destination's file system: next to it if a rename can reach that."""
    folder = destination.folder.resolve()
    clean_up(folder)
    root, descriptor = _create(destination, folder)
    try:
        yield root / STAGED_FILES
    finally:
        for path in (root, folder / root.name):
            if path.is_dir():
                _close(path, folder)
        os.close(descriptor)


def clean_up(folder: Path, locked_folder: Path | None = None) -> None:
    """Finishes or deletes the remains of killed exports to a folder, unless another process has locked it."""
    for parent in (folder, *folder.parents):
        if any(parent.glob(f"{STAGING_PREFIX}*")):
            with nullcontext(True) if parent == locked_folder else locked(parent, wait=False) as has_lock:
                # Without the lock of the folder it is unknown whether a process lives.
                for root in sorted(parent.glob(f"{STAGING_PREFIX}*")) if has_lock else ():
                    if _is_dead(root, folder):
                        _close(root, folder)


def _create(destination: Destination, folder: Path) -> tuple[Path, int]:
    """A new staging folder, and the descriptor of its lock."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    if existing == folder and not destination.is_file:
        with suppress(OSError):  # the parent is on another file system, or not writable
            return _create_in(folder.parent, folder)
    return _create_in(existing, folder)


def _create_in(parent: Path, folder: Path) -> tuple[Path, int]:
    """A new staging folder in `parent` and the descriptor of its lock; OSError if it cannot be moved to `folder`."""
    with locked(parent):
        root = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=parent))
        descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(descriptor, wait=True)
            os.write(descriptor, os.fsencode(folder.relative_to(parent).as_posix()))
            (root / STAGED_FILES).mkdir()
            if folder.is_dir() and folder != parent:
                root.rename(folder / root.name).rename(root)
        except OSError:
            shutil.rmtree(root, ignore_errors=True)
            os.close(descriptor)
            raise
        return root, descriptor


def _is_dead(root: Path, folder: Path) -> bool:
    """Whether a folder is a staging folder for `folder` whose process does not live."""
    # The parent's lock is held, so a folder without a lock file is not one that a process is just creating.
    if root.is_symlink() or not root.is_dir() or is_locked(root / LOCK_FILE):
        return False
    try:
        entries = {"a link" if entry.is_symlink() else entry.name for entry in root.iterdir()}
    except FileNotFoundError:  # its process has just deleted it
        return False
    # a folder of another program is never deleted
    if not entries <= {LOCK_FILE, STAGED_FILES, JOURNAL_FILE, NEW_JOURNAL_FILE, REPLACED_FILES}:
        return False
    target = ""  # the destination's folder, as the lock file names it
    with suppress(OSError):
        target = os.fsdecode(read_regular(root / LOCK_FILE))
    return root.parent == folder or target in ("", folder.relative_to(root.parent).as_posix())


def _close(root: Path, folder: Path) -> None:
    """Finishes what the journal of a staging folder says, and deletes the staging folder."""
    journal = read_journal(root)
    if journal is not None and not journal.new_folder:
        finish_moves(journal, root, root.parent)
    elif journal is not None and folder.is_dir() and folder.stat().st_ino == journal.new_folder:
        keep_newcomers(journal, root / STAGED_FILES, folder)
    # The journal is deleted first: without it, the rest is of no use to anybody.
    (root / JOURNAL_FILE).unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
