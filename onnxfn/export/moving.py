"""Moves the files of an export one by one, where a folder cannot be exchanged as a whole.

The old files are moved away before the first new one appears: at no moment are files of both exports at the
destination. All moves are undone if one fails. If the process is killed, the next export finishes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from onnxfn.weights.journal import JOURNAL_FILE, REPLACED_FILES, STAGED_FILES, Journal, write_journal


def move_files(journal: Journal, root: Path, folder: Path) -> None:
    """Replaces and deletes the files of a journal in `folder`; the new ones are in a staging folder.

    A single file is replaced by one rename. If a step fails, all steps before it are undone. The staging folder itself
    is moved into `folder` first: readers look for its journal there.
    """
    with ExitStack() as undo:
        inside = folder / root.name
        if inside != root:
            root.rename(inside)
            undo.callback(inside.rename, root)
        write_journal(inside, journal)
        undo.callback((inside / JOURNAL_FILE).unlink, missing_ok=True)
        _withdraw([folder / name for name in _old_names(journal)], inside / REPLACED_FILES, undo)
        _move_in([(inside / STAGED_FILES / name, folder / name) for name in journal.files], undo)
        undo.pop_all()
        _remove_empty_folders(journal, folder)
        (inside / JOURNAL_FILE).unlink()


def finish_moves(journal: Journal, root: Path, folder: Path) -> None:
    """Does what a killed process has left to do of `move_files`."""
    waiting = {name for name in journal.files if os.path.lexists(root / STAGED_FILES / name)}
    for name in _old_names(journal):
        if (name in waiting or name in journal.stale) and _is_inside(folder / name, folder):
            (folder / name).unlink(missing_ok=True)
    for name in journal.files:
        if name in waiting and _is_inside(folder / name, folder):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (root / STAGED_FILES / name).replace(folder / name)
    _remove_empty_folders(journal, folder)


def _old_names(journal: Journal) -> list[str]:
    """The names of the files that are moved away first: graphs, then the rest. A single file is replaced instead."""
    names = (*journal.files, *journal.stale)
    return sorted(names, key=lambda name: not name.endswith(".onnx")) if len(names) > 1 else []


def _is_inside(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, after links."""
    return file.parent.resolve().is_relative_to(folder.resolve())


def _withdraw(files: Iterable[Path], backups: Path, undo: ExitStack) -> None:
    """Moves the files that exist to a folder of backups; `undo` moves them back."""
    backups.mkdir()
    for number, file in enumerate(files):
        if os.path.lexists(file):
            backup = file.replace(backups / str(number))
            undo.callback(backup.replace, file)


def _move_in(files: Iterable[tuple[Path, Path]], undo: ExitStack) -> None:
    """Moves each file to its target path; `undo` moves them back."""
    for file, target in files:
        _make_folder(target.parent, undo)
        file.replace(target)
        undo.callback(target.replace, file)


def _make_folder(folder: Path, undo: ExitStack) -> None:
    if not folder.exists():
        _make_folder(folder.parent, undo)
        folder.mkdir()
        undo.callback(folder.rmdir)


def _remove_empty_folders(journal: Journal, folder: Path) -> None:
    """Deletes the folders of stale files in which no other file is."""
    for parent in {(folder / name).parent for name in journal.stale} - {folder}:
        with suppress(OSError):
            parent.rmdir()
