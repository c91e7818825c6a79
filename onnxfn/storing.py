"""Store: the finished graphs of a plan -> files in a folder, and where their weights are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from attrs import frozen

from onnxfn.building import Timed
from onnxfn.checkpoints import Entry, entries
from onnxfn.errors import InvalidSpec, OutputExists, unknown
from onnxfn.records import Plan
from onnxfn.weights import NOTHING, Place, common, layout, store, store_common, write

WEIGHTS = ("copy", "share", "link", "none")
"""Where weights may be: each graph's by it, what several read once, in files of the checkpoint, or nowhere yet."""

SHARED = "shared"
"""The stem of the file that holds what several graphs read."""


@frozen
class Storing:
    """Where the weights of an export go: see `export`; `entries` is what of a checkpoint can be linked to."""

    weights: str
    threshold: int
    sidecar: str
    entries: tuple[Entry, ...] = ()


def stored(
    made: Plan, graphs: Sequence[Any], folder: Path, storing: Storing, timed: Timed, *, check: bool
) -> tuple[Path, ...]:
    """Write the graphs and their weights to a folder; the files that belong to the export.

    A check needs the weights, also of an export that is to have none.
    """
    threshold = storing.threshold if storing.weights in ("copy", "share") else 0
    files: list[Path] = []
    shared = NOTHING
    if storing.weights == "share":
        with timed("write", SHARED):
            shared = common(graphs, f"{SHARED}{storing.sidecar}")
            files.extend(store_common(shared, folder))
    for part, graph in zip(made.parts, graphs, strict=True):
        with timed("write", part.name):
            places = layout(
                graph,
                part.name,
                threshold=threshold,
                sidecar=storing.sidecar,
                entries=storing.entries,
                common=shared,
            )
            files.append(write(graph, folder / f"{part.name}.onnx", places))
            there = store(graph, folder, places, shared) if check or storing.weights != "none" else ()
        files.extend((*(there if storing.weights != "none" else ()), *_linked(places.values(), folder, timed)))
    return tuple(files)


def linkable(weights: str, beside: Path | None, folder: Path, *, force: bool) -> tuple[Entry, ...]:
    """What of a checkpoint can be linked to, all of it where that is asked for, else nothing."""
    if weights not in WEIGHTS:
        raise unknown("weights", weights, WEIGHTS)
    if weights != "link":
        return ()
    if beside is None:
        raise InvalidSpec("weights='link' is into a checkpoint's safetensors files; say where: beside=<its folder>")
    found = entries(beside)
    for file in {one.file for one in found}:
        there = folder / file.name
        if there.exists() and not there.samefile(file) and not force:
            raise OutputExists(
                f"{there} is another file than {file}, to be linked there; choose another place, or force"
            )
    return found


def _linked(places: Iterable[Place], folder: Path, timed: Timed) -> list[Path]:
    """Hard links to the files of a checkpoint; to another file system there are none, and each is copied."""
    made = []
    for source in dict.fromkeys(one.source for one in places if one.source is not None):
        made.append(folder / source.name)
        if not made[-1].exists():
            try:
                made[-1].hardlink_to(source.resolve())
            except OSError:
                with timed("copy", source.name):
                    copyfile(source, made[-1])
    return made
