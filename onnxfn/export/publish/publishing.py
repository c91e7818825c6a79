"""Makes all files of an export appear at its destination, or none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from onnxfn.export.publish.destination import Destination, check_destination
from onnxfn.export.publish.exchange import exchange_folder, move_files
from onnxfn.export.publish.staging import clean_up, locked
from onnxfn.export.publish.stale import stale_files
from onnxfn.specs.errors import OutputExists
from onnxfn.weights.journal import Journal
from onnxfn.weights.onnx_files import external_data_names


def publish(
    files: Iterable[Path],
    staging: Path,
    destination: Destination,
    *,
    overwrite: bool,
    parts: Iterable[Destination] | None = None,
) -> tuple[Path, ...]:
    """Makes the files in a staging folder appear at a destination, and deletes what they leave without use there.

    A folder that does not exist appears by one rename. A folder that exists is exchanged for one with the new files
    and the other files of the old folder, in one step. Where the system cannot do that, and for a single file, the
    old files are moved away, then the new ones to their place: external data, graphs, the rest. If a move fails, those
    before it are undone.

    `parts` are the destinations in which earlier exports are looked for: by default `destination` alone.

    Returns:
        The new paths of the files. OutputExists if the destination exists by now, unless `overwrite`; and if a folder
        has the name of one of the files.
    """
    files = tuple(dict.fromkeys(files))
    folder = destination.folder
    published = tuple(folder / file.relative_to(staging) for file in files)
    for file in staging.rglob("*"):
        if file.is_file() and file not in files:
            file.unlink()
    with locked(staging.parent.parent) as has_lock:
        # A journal of a process that was killed since is finished first: after this export it would undo a part of it.
        clean_up(folder.resolve(), staging.parent.parent if has_lock else None)
        if not _rename_folder(staging, folder.resolve()):
            check_destination(destination.path, overwrite=overwrite)
            _check_no_folders(published)
            stale = [file for part in parts or [destination] for file in stale_files(part, published)]
            names = [file.relative_to(staging).as_posix() for file in _in_order(files)]
            journal = Journal(names, [file.relative_to(folder).as_posix() for file in stale])
            if destination.is_file or not exchange_folder(journal, staging, folder.resolve()):
                move_files(journal, staging.parent, folder.resolve())
    return published


def _check_no_folders(published: Iterable[Path]) -> None:
    """Raises OutputExists if a folder is where a file of the export is to be: its content is not replaced."""
    for path in published:
        if path.is_dir():
            raise OutputExists(f"{path} is a folder, and the export has a file of this name; move the folder away")


def _rename_folder(staging: Path, folder: Path) -> bool:
    """Renames the staging folder to a folder that does not exist; False, and nothing done, if it exists."""
    if folder.exists():
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        staging.rename(folder)
    except OSError:
        if folder.exists():  # another program has created it since
            return False
        raise
    return True


def _in_order(files: Sequence[Path]) -> list[Path]:
    """The files in the order in which they appear: external data, graphs, the rest.

    So a graph never lacks its external data, and the configuration does not tell of graphs that are not there yet.
    """
    graphs = [file for file in files if file.suffix == ".onnx"]
    data = {graph.parent / name for graph in graphs for name in external_data_names(graph)}
    return sorted(files, key=lambda file: _rank(file, data))


def _rank(file: Path, external_data: Collection[Path]) -> int:
    return 0 if file in external_data else 1 if file.suffix == ".onnx" else 2
