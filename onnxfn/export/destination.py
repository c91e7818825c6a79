"""Where an export goes: its path, a staging folder, and the step that makes all files appear there or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from onnxfn.specs.errors import OutputExists
from onnxfn.weights.layouts import LAYOUTS
from onnxfn.weights.onnx_files import external_data_names, mentions, written_by_onnxfn


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
    """Raises OutputExists if something is at the path already, unless `overwrite`."""
    if path.suffix == ".onnx":
        exists = path.exists()
    else:
        if path.exists() and not path.is_dir():
            raise OutputExists(f"{path} is a file and does not end in .onnx; name a folder, or a file that does")
        exists = path.is_dir() and any(path.iterdir())
    if exists and not overwrite:
        raise OutputExists(
            f"{path} exists{'' if path.is_file() else ' and is not empty'}; "
            "choose another path, or pass overwrite=True (--overwrite)"
        )


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """An empty folder on the file system of `folder`, which need not exist; it is deleted at the end in any case."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    with tempfile.TemporaryDirectory(prefix=".onnxfn.", dir=existing, ignore_cleanup_errors=True) as temporary:
        # A temporary folder is for its owner alone; a folder in it has the usual permissions.
        staging = Path(temporary, "files")
        staging.mkdir()
        yield staging


def publish(
    files: Iterable[Path], staging: Path, folder: Path, destinations: Iterable[Destination]
) -> tuple[Path, ...]:
    """Moves files from a staging folder to the same places in `folder` and deletes stale files of the destinations.

    Either all of this happens or nothing: if a step fails, the steps before it are undone. A folder that does not
    exist appears by one rename.

    Returns:
        The new paths of the files.
    """
    files = tuple(dict.fromkeys(files))
    published = tuple(folder / file.relative_to(staging) for file in files)
    if not _rename_folder(files, staging, folder):
        stale = [file for destination in destinations for file in stale_files(destination, published)]
        with ExitStack() as undo:
            _move_files(files, published, staging.with_name("replaced"), undo)
            _remove_files(stale, staging.with_name("stale"), undo)
            undo.pop_all()
    return published


def stale_files(destination: Destination, published: Collection[Path]) -> tuple[Path, ...]:
    """The files of earlier exports at a destination that an export of the `published` files leaves without use.

    These are, for a folder, the ONNX files in it that onnxfn wrote and that are not published again, in the folders of
    all layouts; and the external data of these and of the ONNX files that are replaced. Other ONNX files, external
    data that they use, and safetensors files, which may be the checkpoint, are not among them.
    """
    if destination.is_file:
        return tuple(_stale_in(destination.folder, published, all_graphs=False))
    folders = sorted({destination.folder / layout.subfolder for layout in LAYOUTS.values()})
    return tuple(file for folder in folders for file in _stale_in(folder, published, all_graphs=True))


def _stale_in(folder: Path, published: Collection[Path], *, all_graphs: bool) -> Iterator[Path]:
    """Stale files in one folder; `all_graphs` says whether ONNX files that are not replaced are among them."""
    graphs = sorted(folder.glob("*.onnx"))
    replaced = [graph for graph in graphs if graph in published]
    unused = [graph for graph in graphs if all_graphs and graph not in replaced and written_by_onnxfn(graph)]
    others = [graph for graph in graphs if graph not in (*replaced, *unused)]
    names = {name for graph in (*replaced, *unused) for name in external_data_names(graph)}
    yield from unused
    for name in sorted(names):
        file = folder / name
        own = file.parent == folder and file.suffix != ".safetensors" and file.is_file()
        if own and file not in published and not any(mentions(other, name) for other in others):
            yield file


def _rename_folder(files: Collection[Path], staging: Path, folder: Path) -> bool:
    """Renames the staging folder to a folder that does not exist; False, and nothing done, if it exists."""
    if folder.exists():
        return False
    for file in staging.rglob("*"):
        if file.is_file() and file not in files:
            file.unlink()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        staging.rename(folder)
    except OSError:  # another program has created the folder since
        return False
    return True


def _move_files(files: Iterable[Path], targets: Iterable[Path], backups: Path, undo: ExitStack) -> None:
    """Moves each file to its target path; `undo` moves them back, and restores the files that were there."""
    backups.mkdir()
    for number, (file, target) in enumerate(zip(files, targets, strict=True)):
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
