"""Moves the files of an export one by one, where a folder cannot be exchanged as a whole.

All moves are undone if one fails. If the process is killed, the next export finishes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from onnxfn.weights.journal import JOURNAL_FILE, STAGED_FILES, Journal, write_journal

REPLACED_FILES, STALE_FILES = "replaced", "stale"
"""In a staging folder: the folders of the files that were at the destination, so that they can be moved back."""


def move_files(journal: Journal, root: Path, folder: Path) -> None:
    """Moves the files of a staging folder to `folder`, and deletes stale files there. If a step fails, undoes all.

    The staging folder itself is moved into `folder` first: readers look for its journal there.
    """
    with ExitStack() as undo:
        inside = folder / root.name
        if inside != root:
            root.rename(inside)
            undo.callback(inside.rename, root)
        write_journal(inside, journal)
        undo.callback((inside / JOURNAL_FILE).unlink, missing_ok=True)
        files = [(inside / STAGED_FILES / name, folder / name) for name in journal.files]
        _replace_files(files, inside / REPLACED_FILES, undo)
        _remove_files([folder / name for name in journal.stale], inside / STALE_FILES, undo)
        (inside / JOURNAL_FILE).unlink()
        undo.pop_all()


def finish_moves(journal: Journal, root: Path, folder: Path) -> None:
    """Does what a killed process has left to do of `move_files`."""
    for name in journal.files:
        staged, target = root / STAGED_FILES / name, folder / name
        if os.path.lexists(staged) and _is_inside(target, folder):
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
    for name in journal.stale:
        if _is_inside(folder / name, folder):
            (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # other files are in it
                (folder / name).parent.rmdir()


def _is_inside(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, after links."""
    return file.parent.resolve().is_relative_to(folder.resolve())


def _replace_files(files: Iterable[tuple[Path, Path]], backups: Path, undo: ExitStack) -> None:
    """Moves each file to its target path; `undo` moves them back, and restores the files that were there."""
    backups.mkdir()
    for number, (file, target) in enumerate(files):
        _make_folder(target.parent, undo)
        if os.path.lexists(target):
            backup = _back_up(target, backups / str(number))
            undo.callback(backup.replace, target)
        file.replace(target)
        undo.callback(target.replace, file)


def _remove_files(files: Iterable[Path], backups: Path, undo: ExitStack) -> None:
    """Moves files to a folder of backups, and deletes folders that are empty then; `undo` moves them back."""
    backups.mkdir()
    for number, file in enumerate(files):
        backup = file.replace(backups / str(number))
        undo.callback(backup.replace, file)
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
            undo.callback(file.parent.mkdir)


def _make_folder(folder: Path, undo: ExitStack) -> None:
    if not folder.exists():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.callback(folder.rmdir)


def _back_up(file: Path, backup: Path) -> Path:
    """Gives a file a second name, so that it stays where it is until it is replaced; moves it where that fails."""
    try:
        backup.hardlink_to(file)
    except OSError:  # the file system has no hard links
        file.replace(backup)
    return backup
