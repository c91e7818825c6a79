"""The files of earlier exports that an export leaves without use."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from onnxfn.export.destination import Destination
from onnxfn.export.report_file import REPORT_FILE, is_foreign_report
from onnxfn.weights.layouts import LAYOUTS
from onnxfn.weights.onnx_files import external_data_names, mentions, written_by_onnxfn


def stale_files(destination: Destination, published: Collection[Path]) -> tuple[Path, ...]:
    """The files of earlier exports at a destination that an export of the `published` files leaves without use.

    These are, for a folder, the ONNX files in it that onnxfn wrote and that are not published again, in the folders of
    all layouts; the external data of these and of the ONNX files that are replaced; and onnxfn's report. Other ONNX
    files, external data that they use, and safetensors files, which may be the checkpoint, are not among them.
    """
    if destination.is_file:
        return tuple(_stale_in(destination.folder, published, all_graphs=False))
    folders = sorted({destination.folder / layout.subfolder for layout in LAYOUTS.values()})
    report = destination.folder / REPORT_FILE
    reports = [report] if report.is_file() and report not in published and not is_foreign_report(report) else []
    return (*(file for folder in folders for file in _stale_in(folder, published, all_graphs=True)), *reports)


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
