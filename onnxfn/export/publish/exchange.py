"""Puts the files of an export in the place of an earlier one, in one step of the system or by moves that are undone."""

import ctypes
import errno
import os
import shutil
from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

from attrs import evolve

from onnxfn.weights.journal import JOURNAL_FILE, REPLACED_FILES, STAGED_FILES, STAGING_PREFIX, Journal, write_journal
from onnxfn.weights.names import file_fault


def move_files(journal: Journal, root: Path, folder: Path) -> None:
    """Replaces and deletes the files of a journal in `folder`, where readers look for it; a failed step undoes all."""
    # A single file is replaced by one rename. For several, the staging folder is first moved to `folder`.
    with ExitStack() as undo:
        inside = folder / root.name
        if inside != root:
            root.rename(inside)
            undo.callback(inside.rename, root)
        write_journal(inside, journal)
        undo.callback((inside / JOURNAL_FILE).unlink, missing_ok=True)
        (inside / REPLACED_FILES).mkdir()
        for number, file in enumerate(folder / name for name in _old_names(journal)):
            if os.path.lexists(file):
                undo.callback(file.replace(inside / REPLACED_FILES / str(number)).replace, file)
        for name in journal.files:
            file, target = inside / STAGED_FILES / name, folder / name
            for parent in reversed([each for each in target.parents if not each.exists()]):
                parent.mkdir()
                undo.callback(parent.rmdir)
            file.replace(target)
            undo.callback(target.replace, file)
        undo.pop_all()
        _remove_empty_folders(journal, folder)
        (inside / JOURNAL_FILE).unlink()


def finish_moves(journal: Journal, root: Path, folder: Path) -> None:
    """Finishes `move_files` of a killed process, without files whose folder is a link out of `folder`."""
    journal = evolve(journal, files=_own(journal.files, folder), stale=_own(journal.stale, folder))
    waiting = [name for name in journal.files if os.path.lexists(root / STAGED_FILES / name)]
    for name in _old_names(journal):
        if name in waiting or name in journal.stale:
            (folder / name).unlink(missing_ok=True)
    for name in waiting:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (root / STAGED_FILES / name).replace(folder / name)
    _remove_empty_folders(journal, folder)


def _old_names(journal: Journal) -> list[str]:
    """The names of the files that are moved away first: graphs, then the rest. A single file is replaced instead."""
    names = (*journal.files, *journal.stale)
    return sorted(names, key=lambda name: not name.endswith(".onnx")) if len(names) > 1 else []


def _own(names: Iterable[str], folder: Path) -> list[str]:
    """Those of the names whose files lie in a folder. A file that is itself a link is moved as a link."""
    return [name for name in names if file_fault((folder / name).parent, folder) is None]


def _remove_empty_folders(journal: Journal, folder: Path) -> None:
    """Deletes the folders of stale files in which no other file is."""
    for parent in {(folder / name).parent for name in journal.stale} - {folder}:
        with suppress(OSError):
            parent.rmdir()


AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Linux: paths start at the current folder; two paths are exchanged (renameat2(2))."""

MAX_ENTRIES = 4096
"""The most files and folders in a folder that is swapped: each one that stays gets a hard link."""


def exchange_folder(journal: Journal, staging: Path, folder: Path) -> bool:
    """Swaps `folder` and a staging folder, which first gets all other files of `folder`; False if it cannot be."""
    # It cannot for a mount point, the current folder, one with more than MAX_ENTRIES files, and without hard links.
    root = staging.parent
    if root.parent != folder.parent or folder == folder.parent:
        return False
    try:
        if Path.cwd().is_relative_to(folder) or any(islice(folder.rglob("*"), MAX_ENTRIES, None)):
            return False
        _link_others(folder, staging, {folder / name for name in (*journal.files, *journal.stale)})
        os.utime(staging)
        write_journal(root, evolve(journal, new_folder=staging.stat().st_ino))
        swap(staging, folder)
    except OSError:
        (root / JOURNAL_FILE).unlink(missing_ok=True)
        return False
    return True


def keep_newcomers(journal: Journal, old: Path, new: Path) -> None:
    """Moves files that another program added during the exchange to the new folder; all others are there or unused."""
    discarded = {*journal.files, *journal.stale}
    for file in sorted(old.rglob("*")):
        name = file.relative_to(old)
        is_folder = file.is_dir() and not file.is_symlink()
        # A link is not the file that it leads to.
        is_linked = os.path.lexists(new / name) and os.path.samestat(file.lstat(), (new / name).lstat())
        if not is_folder and name.as_posix() not in discarded and not is_linked:
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            file.replace(new / name)


def swap(first: Path, second: Path) -> None:
    """Exchanges two paths of one file system; OSError where the system cannot do that in one step."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        raise OSError(errno.ENOSYS, "the C library has no renameat2")
    if renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(first), None, str(second))


def _link_others(old: Path, new: Path, replaced: Collection[Path]) -> None:
    """Gives the files in `old` that are not replaced a second name in `new`, and `new` the owner and mode of `old`."""
    for entry in sorted(old.iterdir()):
        target = new / entry.name
        if entry.name.startswith(STAGING_PREFIX):
            raise OSError(errno.EBUSY, "another export works in this folder", str(entry))
        if entry.is_dir() and not entry.is_symlink():
            target.mkdir(exist_ok=True)
            _link_others(entry, target, replaced)
            if any(entry.iterdir()) and not any(target.iterdir()):
                target.rmdir()
        elif entry not in replaced:
            os.link(entry, target, follow_symlinks=False)
    info = old.stat()
    os.chown(new, info.st_uid, info.st_gid)
    shutil.copystat(old, new)
