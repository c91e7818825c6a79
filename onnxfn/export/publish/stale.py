"""The files of earlier exports that an export leaves without use."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from onnxfn.export.publish.destination import Destination
from onnxfn.export.report.report_file import REPORT_FILE, is_foreign_report, recorded
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.layouts import LAYOUTS
from onnxfn.weights.onnx_files import external_data_names, mentions, written_by_onnxfn
from onnxfn.weights.side_files import WRITTEN_FILES, side_files

CHECKPOINT_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf")
"""Patterns of the files that hold the weights of a checkpoint."""


def stale_files(destination: Destination, published: Collection[Path]) -> tuple[Path, ...]:
    """The files of earlier exports at a destination that an export of the `published` files leaves without use.

    These are, for a folder, the ONNX files in it that onnxfn wrote and that are not published again, in the folders of
    all layouts; the external data of these and of the ONNX files that are replaced; onnxfn's report, and the side files
    that are as it states. Other ONNX files, external data that they use, and the files of a checkpoint are not among
    them.
    """
    if destination.is_file:
        return tuple(_stale_in(destination.folder, published, all_graphs=False))
    folders = sorted({destination.folder / layout.subfolder for layout in LAYOUTS.values()})
    report = destination.folder / REPORT_FILE
    reports = [report] if report.is_file() and report not in published and not is_foreign_report(report) else []
    unused = [file for file in _written_side_files(destination.folder) if file not in published]
    stale = (file for folder in folders for file in _stale_in(folder, published, all_graphs=True))
    return (*stale, *unused, *reports)


def _written_side_files(folder: Path) -> Iterator[Path]:
    """The side files in a folder that the export with the report there wrote, and that nobody has changed since.

    None if weights of a checkpoint lie there: then the side files may be the checkpoint's own.
    """
    report = recorded(folder)
    if report is not None and not _has_weights(folder):
        for file in side_files(folder, WRITTEN_FILES):
            facts = report.files.get(file.relative_to(folder).as_posix())
            if facts is not None and facts.sha256 == sha256_of(file):
                yield file


def checkpoint_files(folder: Path) -> frozenset[str]:
    """The paths of the side files in a folder that also holds the weights of a checkpoint; none without weights.

    They describe that checkpoint, so an export to its folder leaves them as they are.
    """
    files = side_files(folder) if _has_weights(folder) else ()
    return frozenset(file.relative_to(folder).as_posix() for file in files)


def _has_weights(folder: Path) -> bool:
    """Whether weights of a checkpoint lie in a folder."""
    return any(file for pattern in CHECKPOINT_WEIGHTS for file in folder.glob(pattern))


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
