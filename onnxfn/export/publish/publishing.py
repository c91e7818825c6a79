"""The last step of an export: its files appear, and unused files of an earlier export are deleted."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onnxfn.export.publish.exchange import exchange_folder, move_files
from onnxfn.export.publish.staging import Destination, check_destination, clean_up, locked
from onnxfn.export.report.report_file import REPORT_FILE, is_foreign_report, recorded
from onnxfn.specs.errors import OutputExists
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.journal import Journal
from onnxfn.weights.layouts import CONFIG_FILES, LAYOUTS
from onnxfn.weights.names import file_fault, read_regular
from onnxfn.weights.onnx_files import external_data_names, mentions, written_by_onnxfn
from onnxfn.weights.side_files import WRITTEN_FILES, side_files

CONFIG = CONFIG_FILES["config"]
OF_WRITING = frozenset(("_name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype"))
"""The keys of a configuration that may differ between two files of one model."""


def stale_files(destination: Destination, published: Collection[Path]) -> tuple[Path, ...]:
    """The files of earlier exports that are unused now: graphs, external data, the report, unchanged side files."""
    if destination.is_file:
        return tuple(_stale_in(destination.folder, published, all_graphs=False))
    folders = sorted({destination.folder / layout.subfolder for layout in LAYOUTS.values()})
    report = destination.folder / REPORT_FILE
    reports = [report] if report.is_file() and report not in published and not is_foreign_report(report) else []
    stale = (file for folder in folders for file in _stale_in(folder, published, all_graphs=True))
    return (*stale, *(file for file in _written_side_files(destination.folder) if file not in published), *reports)


def _written_side_files(folder: Path) -> Iterator[Path]:
    """The side files in a folder that its report lists, and that are unchanged since."""
    # Where weights of a checkpoint lie, the side files may be the checkpoint's own.
    report = recorded(folder)
    if report is not None and not _weights(folder):
        for file in side_files(folder, WRITTEN_FILES):
            facts = report.files.get(file.relative_to(folder).as_posix())
            if facts is not None and facts.sha256 == sha256_of(file):
                yield file


def checkpoint_files(folder: Path) -> frozenset[str]:
    """The paths of the side files in a folder that also holds the weights of a checkpoint; none without weights."""
    # They describe that checkpoint, so an export to its folder leaves them as they are.
    return frozenset(file.relative_to(folder).as_posix() for file in (side_files(folder) if _weights(folder) else ()))


def without_own_files(files: Iterable[Path], staging: Path, folder: Path) -> list[Path]:
    """The staged side files that are no files of a checkpoint in the folder; OutputExists if that is another one."""
    report = recorded(folder)
    weights = [file for file in _weights(folder) if report is None or file.name not in report.files]
    if weights and _differs(_config(folder), _config(staging)):
        words = f"has the weights of another checkpoint, {weights[0].name}, which needs its own {CONFIG}"
        raise OutputExists(f"{folder} {words}; choose another path")
    own = checkpoint_files(folder) if weights else ()
    return [file for file in files if file.relative_to(staging).as_posix() not in own]


def _config(folder: Path) -> Any:
    """The configuration in a folder; empty if there is none that can be read."""
    with suppress(OSError, ValueError):
        return json.loads(read_regular(folder / CONFIG))
    return {}


def _differs(own: Any, new: Any) -> bool:
    """Whether configurations differ in the value of a key that both have."""
    if isinstance(own, dict) and isinstance(new, dict):
        return any(_differs(own[key], new[key]) for key in own.keys() & new.keys() - OF_WRITING)
    return bool(own != new)


def _weights(folder: Path) -> list[Path]:
    """The files with weights of a checkpoint in a folder."""
    patterns = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf")
    return [file for pattern in patterns for file in folder.glob(pattern)]


def _stale_in(folder: Path, published: Collection[Path], *, all_graphs: bool) -> Iterator[Path]:
    """Stale files in one folder; `all_graphs` says whether ONNX files that are not replaced are among them."""
    graphs = [graph for graph in sorted(folder.glob("*.onnx")) if file_fault(graph, folder) is None]
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


def publish(
    files: Iterable[Path],
    staging: Path,
    destination: Destination,
    *,
    overwrite: bool,
    parts: Iterable[Destination] | None = None,
) -> tuple[Path, ...]:
    """Moves the files of a staging folder to a destination, and deletes unused earlier ones; returns the new paths."""
    # A folder is exchanged in one step. Without that external data is moved first, and a failure undoes all.
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
            if folders := [path for path in published if path.is_dir()]:  # their content is not replaced
                words = "is a folder, and the export has a file of this name; move the folder away"
                raise OutputExists(f"{folders[0]} {words}")
            stale = [file for part in parts or [destination] for file in stale_files(part, published)]
            names = [file.relative_to(staging).as_posix() for file in _in_order(files)]
            journal = Journal(names, [file.relative_to(folder).as_posix() for file in stale])
            if destination.is_file or not exchange_folder(journal, staging, folder.resolve()):
                move_files(journal, staging.parent, folder.resolve())
    return published


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
    """The files in the order in which they appear: external data, graphs, the rest."""
    graphs = [file for file in files if file.suffix == ".onnx"]
    data = {graph.parent / name for graph in graphs for name in external_data_names(graph)}
    # So a graph never lacks its external data, and the configuration does not tell of graphs that are not there yet.
    return sorted(files, key=lambda file: 0 if file in data else 1 if file in graphs else 2)
