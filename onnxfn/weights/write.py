"""Store: the finished graphs of a plan -> files in a folder, and where their weights are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from attrs import evolve, frozen

from onnxfn.specs.errors import InvalidSpec, OutputExists, unknown
from onnxfn.specs.records import Plan
from onnxfn.specs.reports import StageTimer
from onnxfn.weights.layouts import Layout, layout_of
from onnxfn.weights.placement import NOTHING, Place, common, placed, store, write
from onnxfn.weights.safetensors import Entry, entries

WEIGHTS = ("copy", "share", "link", "none")
"""Where weights may be: each graph's by it, what several read once, in files of the checkpoint, or nowhere yet."""


@frozen
class Storing:
    """How an export is stored: see `export`; `entries` is what of a checkpoint can be linked to."""

    layout: Layout
    weights: str
    threshold: int
    sidecar: str
    entries: tuple[Entry, ...] = ()


def storing(layout: str, weights: str | None, threshold: int, sidecar: str | None) -> Storing:
    """How an export is stored: as is asked for, else as its layout says; UnknownName for what there is not."""
    program = layout_of(layout)
    if weights is not None and weights not in WEIGHTS:
        raise unknown("weights", weights, WEIGHTS)
    return Storing(program, weights or program.weights, threshold, sidecar or program.sidecar)


def stored(
    made: Plan, graphs: Sequence[Any], folder: Path, asked: Storing, timed: StageTimer, *, check: bool
) -> tuple[Path, ...]:
    """Write the graphs and their weights to a folder; the files that belong to the export.

    A check needs the weights, also of an export that is to have none.
    """
    threshold = asked.threshold if asked.weights in ("copy", "share") else 0
    sidecars = [f"{part.name}{asked.sidecar}" for part in made.parts]
    shared = common(graphs, sidecars) if asked.weights == "share" else NOTHING
    files: list[Path] = []
    for part, graph, sidecar in zip(made.parts, graphs, sidecars, strict=True):
        with timed("write", part.name):
            places = placed(
                graph,
                part.name,
                threshold=threshold,
                sidecar=asked.sidecar,
                entries=asked.entries,
                common=shared,
            )
            files.append(write(graph, folder / f"{part.name}.onnx", places))
            there = store(graph, folder / sidecar, places) if check or asked.weights != "none" else ()
        files.extend((*(there if asked.weights != "none" else ()), *_linked(places.values(), folder, timed)))
    return tuple(files)


def linked(asked: Storing, checkpoint: Path | None, folder: Path, *, overwrite: bool) -> Storing:
    """With what of a checkpoint can be linked to from a folder, all of it where that is asked for, else nothing."""
    if asked.weights != "link":
        return asked
    if checkpoint is None:
        raise InvalidSpec("weights='link' is into a checkpoint's safetensors files; say where: checkpoint=<its folder>")
    found = entries(checkpoint)
    for file in {one.file for one in found}:
        there = folder / file.name
        if there.exists() and not there.samefile(file) and not overwrite:
            raise OutputExists(
                f"{there} is another file than {file}, to be linked there; "
                "choose another path, or pass overwrite=True (--overwrite)"
            )
    return evolve(asked, entries=found)


def _linked(places: Iterable[Place], folder: Path, timed: StageTimer) -> list[Path]:
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
