"""Writes the graphs of a plan and their weights to files in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, evolve, field

from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.errors import InvalidSpec, OutputExists, listed
from onnxfn.specs.record import record
from onnxfn.specs.stored.reports import StageTimer
from onnxfn.weights.checkpoint_links import TensorEntry, entries
from onnxfn.weights.chunks import CHUNK_BYTES, counted
from onnxfn.weights.layouts import OPTIMUM, Layout, LayoutName, layout_of, with_alias
from onnxfn.weights.placement import (
    PROTOBUF_LIMIT,
    Placement,
    shared_placements,
    weight_placements,
    write_external_data,
    write_graph,
)

OTHER_SUFFIXES = (".onnx", ".safetensors", ".bin", ".pt", ".pth", ".gguf")
"""Endings of graphs and of a checkpoint's weights, so no endings of external data."""

WeightStorage = Literal["copy", "share", "link", "none"]
Functions = Literal["layers"]
LINK: WeightStorage = "link"
"""Weights stay in the files of the checkpoint."""


def _check_suffix(_: Any, __: Attribute[str | None], suffix: str | None) -> None:
    """Raises InvalidSpec for a suffix that cannot end a file name, or that is of files that must not be replaced."""
    if not isinstance(suffix, str):
        return
    if not suffix or ".." in suffix or any(character in suffix for character in "/\\\0\n"):
        raise InvalidSpec(f"external_data_suffix {suffix!r} is not the end of a file name, such as '.onnx_data'")
    if suffix.lower().endswith(OTHER_SUFFIXES):
        raise InvalidSpec(
            f"external_data_suffix {suffix!r} is that of files of another kind: {listed(OTHER_SUFFIXES)}; "
            "choose another, such as '.onnx_data'"
        )


@record(kw_only=True)
class WriteOptions:
    """The options of `export` for the layout of files and the storage of weights.

    Attributes:
        layout: The program that the folder is for. `"optimum"`: ONNX files lie in the folder itself and share
            weights. `"transformers.js"`: ONNX files lie in `onnx/`, each has its own weights, and `config.json`
            lists the files that have external data. `"hub"`: the same with the files that onnxruntime-genai,
            ORTModel, sentence-transformers and transformers.js need, as a repository on the hub has them.
        weight_storage: Where weights lie. `"copy"`: each ONNX file has its own. `"share"`: a weight of 64 KiB or
            more that several parts use is stored once, in the external data of the first. `"link"`: weights that lie
            unchanged in the checkpoint's safetensors files stay there; these files are hard-linked into the folder.
            `"none"`: weights are not written. None: the default of the layout (`"share"` or `"copy"`).
        external_data_threshold: Bytes. If the weights of an ONNX file are larger in sum, they are stored as external
            data in a separate file. Protobuf allows no file above 2 GiB, so larger values have no effect.
        external_data_suffix: The end of the names of external data files, after the name of the part. None: that of the
            layout (`".onnx_data"`).
        functions: `"layers"`: each layer that equals another one is a call of a function of the ONNX file, so that the
            file has fewer nodes, and a viewer shows a box for the layer. None: no functions.
        alias: Whether `config.json` states a known model type (`gemma`) if a client does not know the real type, or
            starts it with a cache of other sizes. The remarks of the plan say so.

    Raises:
        UnknownName: `layout` or `weight_storage` is not a known value.
        InvalidSpec: `external_data_suffix` is not the end of a file name, or is that of files of another kind.

    Example:
        >>> WriteOptions(layout="transformers.js", external_data_threshold=0).weight_storage is None
        True
        >>> WriteOptions(layout="hubb")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        onnxfn.specs.errors.UnknownName: no layout 'hubb'; known: optimum, ...; did you mean 'hub'?
    """

    layout: LayoutName = OPTIMUM
    weight_storage: WeightStorage | None = None
    external_data_threshold: int = PROTOBUF_LIMIT
    external_data_suffix: str | None = field(default=None, validator=_check_suffix)
    functions: Functions | None = None
    alias: bool = False


@record(kw_only=True)
class ResolvedWriteOptions:
    """`WriteOptions` in which the layout has replaced each None, and the `entries` of a checkpoint to link to."""

    layout: Layout
    weight_storage: str
    external_data_threshold: int
    external_data_suffix: str
    functions: str | None = None
    entries: tuple[TensorEntry, ...] = ()


def resolved_write_options(options: WriteOptions) -> ResolvedWriteOptions:
    """The options with the defaults of their layout."""
    layout = with_alias(layout_of(options.layout)) if options.alias else layout_of(options.layout)
    return ResolvedWriteOptions(
        layout=layout,
        weight_storage=options.weight_storage or layout.weight_storage,
        external_data_threshold=options.external_data_threshold,
        external_data_suffix=options.external_data_suffix or layout.external_data_suffix,
        functions=options.functions,
    )


def with_checkpoint_entries(
    options: ResolvedWriteOptions, checkpoint: Path | None, folder: Path, *, overwrite: bool
) -> ResolvedWriteOptions:
    """The options with the tensors of a checkpoint for `weight_storage="link"`. OutputExists unless `overwrite`."""
    if options.weight_storage != LINK:
        return options
    if checkpoint is None:
        raise InvalidSpec(
            "weight storage 'link' needs a checkpoint with safetensors files; pass its folder: checkpoint=..."
        )
    checkpoint_entries = entries(checkpoint)
    for file in {entry.file for entry in checkpoint_entries}:
        target = folder / file.name
        if target.exists() and not target.samefile(file) and not overwrite:
            raise OutputExists(
                f"{target} exists and is not {file}, which would be linked there; "
                "choose another path, or pass overwrite=True (--overwrite)"
            )
    return evolve(options, entries=checkpoint_entries)


def write_graphs(
    plan: Plan, graphs: Sequence[Any], folder: Path, options: ResolvedWriteOptions, timed: StageTimer, *, check: bool
) -> dict[Path, str]:
    """Writes the graphs and their weights to a folder; returns the files of the export with the SHA-256 of each."""
    # A check needs the weights: for `weight_storage="none"` they are written but not returned.
    storage = options.weight_storage
    threshold = options.external_data_threshold if storage in ("copy", "share") else 0
    data_files = [f"{part.name}{options.external_data_suffix}" for part in plan.parts]
    shared = shared_placements(graphs, data_files) if storage == "share" else {}
    files: dict[Path, str] = {}
    stated: dict[str, str] = {}
    for part, graph, data_file in zip(plan.parts, graphs, data_files, strict=True):
        with timed("write", part.name) as tick:
            placements = weight_placements(
                graph, data_file, threshold=threshold, entries=options.entries, shared=shared, tick=tick
            )
            is_written = check or storage != "none"
            digests = write_external_data(graph, folder / data_file, placements, tick) if is_written else None
            own_data = {folder / data_file: digests} if digests and storage != "none" else {}
            stated |= {file.name: of_weights for file, (of_weights, _) in own_data.items()}
            # The graph states the digests of its external data, so it is written after them.
            path = folder / f"{part.name}.onnx"
            files[path] = write_graph(graph, path, placements, stated, tick)
        files |= {file: of_file for file, (_, of_file) in own_data.items()}
        files |= dict.fromkeys(_link_files(placements.values(), folder, timed), "")
    return files


def _link_files(placements: Iterable[Placement], folder: Path, timed: StageTimer) -> list[Path]:
    """Hard-links the files of a checkpoint into a folder, or copies them if the file systems differ."""
    links = []
    for source in dict.fromkeys(placement.source for placement in placements if placement.source is not None):
        link = folder / source.name
        links.append(link)
        if not link.exists():
            try:
                link.hardlink_to(source.resolve())
            except OSError:
                with timed("copy", source.name) as tick, source.open("rb") as opened, link.open("wb") as copy:
                    chunks = iter(partial(opened.read, CHUNK_BYTES), b"")
                    copy.writelines(counted(chunks, tick, 0, source.stat().st_size))
    return links
