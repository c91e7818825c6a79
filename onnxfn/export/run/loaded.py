"""The files of an export as functions: `load`, and the methods of a result."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from attrs import field, frozen

from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, PrivateFolder, check_destination, staging_folder
from onnxfn.export.report.folder_report import outlines
from onnxfn.export.report.report_file import REPORT_FILE, recorded
from onnxfn.run.feeds import feeds, too_small
from onnxfn.run.prompts import export_path
from onnxfn.run.sessions import open_session, runtime_message
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.edits.tensors import CLIENT_NAMES
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, errors_as, listed, refuse_unknown, write_errors
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr
from onnxfn.specs.stored.reports import CPU
from onnxfn.weights.layouts import dtype_suffix, graphs_of_dtype, no_onnx_file, onnx_folder
from onnxfn.weights.onnx_files import data_fault, external_data_names, onnx_model


@frozen(eq=False, field_transformer=typed_fields)
class Loaded:
    """The files of an export. Like the result of `export`, it is called, and has `session`, `model_proto` and `save`.

    Attributes:
        path: The folder, or the ONNX file.
        files: The paths of all files of the export.
        owner: The folder for temporary files that holds them; None if they lie at a path of the caller.
        dtype: The variant whose files these are; None for all files of the export.
        session_for: Opens an ONNX file at its first call, and returns the same session later.
    """

    path: str
    files: tuple[str, ...] = field(converter=as_tuple)
    owner: PrivateFolder | None = field(default=None, repr=False)
    dtype: str | None = None
    session_for: Any = field(factory=lambda: cache(open_session), repr=False)

    __repr__ = short_repr

    def __reduce__(self) -> Any:
        """The state for `pickle`: the paths. Sessions are opened again, and a folder stays with its first owner."""
        return Loaded, (self.path, self.files, None, self.dtype)

    def __fspath__(self) -> str:
        """The path, for functions that take one. It does not name the variant: `generate` and `validate` know it."""
        return self.path

    @property
    def graphs(self) -> dict[str, Path]:
        """From the name of each part to its ONNX file; the names of the parts of a variant have no ending."""
        graphs = [path for path in map(Path, self.files) if path.suffix == ".onnx"]
        return {path.stem.removesuffix(dtype_suffix(self.dtype)): path for path in graphs}

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the inputs of the first file, optional ones included."""
        return _dynamic_axes(onnx_model(next(iter(self.graphs.values()))).graph.input)

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of the outputs of the first file."""
        return _dynamic_axes(onnx_model(next(iter(self.graphs.values()))).graph.output)

    def model_proto(self, part: str | None = None) -> Any:
        """The graph of a part with its weights, as an `onnx.ModelProto`."""
        import onnx

        return onnx.load(_graph(self, part))

    def outlines(self) -> dict[str, Any]:
        """From the name of each ONNX file to the names and types of its weights, layers in one row."""
        return outlines(self.graphs.values())

    def session(self, part: str | None = None, *, providers: Sequence[Any] = CPU, options: Any = None) -> Any:
        """A new `onnxruntime.InferenceSession` of a part. UnknownName for a provider that this build does not have."""
        import onnxruntime

        available = onnxruntime.get_available_providers()
        for provider in providers:
            name = provider[0] if isinstance(provider, tuple) else provider
            refuse_unknown("provider", str(name), available, of="this build of ONNX Runtime")
        return open_session(_graph(self, part), options, providers)

    def __call__(self, part: str | None = None, /, **inputs: Any) -> dict[str, Array]:
        """The outputs of a part by their names, computed by ONNX Runtime on the CPU."""
        file = _graph(self, part)
        session = self.session_for(file)
        arrays = feeds(session, file.name, inputs)
        names = [output.name for output in session.get_outputs()]
        with errors_as(lambda error: InvalidSpec(_cannot_run(session, file, arrays, error))):
            return dict(zip(names, session.run(names, arrays), strict=True))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Loaded:
        """Writes the files to a folder, or the only one to a file that ends in `.onnx`; returns those there."""
        path = Path(path)
        check_destination(path, overwrite=overwrite)
        destination = Destination(path)
        names = _names(self, destination)
        if missing := [file for file in names if not file.is_file()]:
            raise ModelNotFound(f"no file {missing[0]}, which the export has; export it again")
        size = sum(file.stat().st_size for file in names)
        with write_errors(path, lambda: size), staging_folder(destination) as staging:
            for file, name in names.items():
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, staging / name)
            staged = [staging / name for name in names.values()]
            return Loaded(str(path), map(str, publish(staged, staging, destination, overwrite=overwrite)))


def variant_of(exported: Any) -> tuple[str, ...]:
    """The dtype that `load` was asked for; none for the files of an export or a path."""
    return (exported.dtype,) if isinstance(exported, Loaded) and exported.dtype is not None else ()


def load(folder: str | Path, dtype: str | None = None) -> Loaded:
    """The files of an earlier export, to be called, opened with ONNX Runtime, read as protos or saved elsewhere.

    Nothing is read yet. Each part is opened at its first call.

    Args:
        folder: The folder of an export, or an ONNX file. A folder of several parts, such as encoder and decoder, is
            called with the name of one: `loaded("encoder_model", input_ids=...)`.
        dtype: Which of the `dtypes` of the export; its parts are named without their ending. None: all of them.

    Returns:
        What has the methods of the result of `export`, `loaded(**inputs)`, `session`, `model_proto` and `save`, and its
        `inputs` and `outputs`. `generate` and `validate` take it, too.

    Raises:
        ModelNotFound: There is no such file, no ONNX file in the folder, or none of this dtype.
        UnknownName: `dtype` is not a known value.
        InvalidSpec: An ONNX file, or its external data, lies outside the folder.

    >>> import tempfile, torch
    >>> from onnxfn import derived, export, load
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = export(spec, model, f"{folder}/out", check=False)
    ...     load(f"{folder}/out")(input=torch.randn(5, 4))["output"].shape
    (5, 2)
    """
    path, dtype = export_path(folder), CLIENT_NAMES.get(dtype or "", dtype)
    if path.suffix == ".onnx":
        graphs, root = ([path] if path.is_file() else []), path.parent
    else:
        graphs, root = graphs_of_dtype(onnx_folder(path), dtype), path
    if not graphs:
        parts = sorted({str(file.parent) for file in path.glob("*/model*.onnx")})
        below = f"; folders in it with a model: {listed(parts)}" if parts else ""
        raise ModelNotFound(f"{no_onnx_file(path)}{below}")
    others = _recorded_files(root, dtype) if root == path else []
    return Loaded(str(path), map(str, dict.fromkeys([*graphs, *_data_files(graphs), *others])), dtype=dtype)


def _dynamic_axes(ports: Sequence[Any]) -> dict[str, dict[int, str]]:
    """From the name of each port, an `onnx.ValueInfoProto`, to the symbols of its dynamic axes."""
    axes = {port.name: enumerate(port.type.tensor_type.shape.dim) for port in ports}
    return {name: {axis: each.dim_param for axis, each in sizes if each.dim_param} for name, sizes in axes.items()}


def _recorded_files(folder: Path, dtype: str | None) -> list[Path]:
    """The files that a report lists, and the report; for a variant, its side files alone: the report covers more."""
    report = recorded(folder)
    if report is None:
        return []
    files = [folder / name for name in report.files]
    if dtype is None:
        return [*files, folder / REPORT_FILE]
    graphs = [folder / name for name in report.graphs]
    of_graphs = {*graphs, *_data_files(graph for graph in graphs if graph.is_file())}
    return [file for file in files if file not in of_graphs]


def _data_files(graphs: Iterable[Path]) -> list[Path]:
    """The files of the external data of ONNX files. InvalidSpec for a file that lies outside its folder."""
    every = list(graphs)
    for graph in every:
        if fault := data_fault(graph):
            raise InvalidSpec(f"{graph} is not loaded: {fault}")
    return [graph.parent / name for graph in every for name in sorted(external_data_names(graph))]


def write_to_file_object(loaded: Loaded, opened: str | PathLike[str] | BinaryIO | None) -> None:
    """Writes the only file of an export to a file object, not to a path. InvalidSpec if there are several files."""
    if opened is None or isinstance(opened, str | PathLike):
        return
    if len(loaded.files) != 1:
        names = listed(Path(file).name for file in loaded.files)
        raise InvalidSpec(f"the export has the files {names}, and a file object takes one; pass a folder")
    with Path(loaded.files[0]).open("rb") as file:
        shutil.copyfileobj(file, opened, 1 << 20)


def _cannot_run(session: Any, file: Path, arrays: dict[str, Array], error: Exception) -> str:
    """Why ONNX Runtime cannot run a file on these inputs: sizes below the smallest ones of the model, else its text."""
    graph = onnx_model(file).graph
    values = (*graph.value_info, *graph.output)
    axes = {each.dim_param for value in values for each in value.type.tensor_type.shape.dim}
    why = too_small(session, arrays, sorted(axes - {""})) or runtime_message(error).rpartition("Status Message: ")[2]
    return f"ONNX Runtime cannot run {file.name} on these inputs: {why}"


def _graph(loaded: Loaded, part: str | None) -> Path:
    """The ONNX file of a part. InvalidSpec if there are several and none is named."""
    if not isinstance(part, str | None):
        raise InvalidSpec(
            f"part is of the type {type(part).__name__}; pass inputs by name, such as result(input_ids=...)"
        )
    graphs = loaded.graphs
    if part is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    if part is None:
        example = next(iter(graphs))
        raise InvalidSpec(f"the export has the parts {listed(graphs)}; name one first, such as {example!r}")
    refuse_unknown("part", part, graphs)
    return graphs[part]


def _names(loaded: Loaded, destination: Destination) -> dict[Path, str]:
    """From each file of an export to its name at a destination. InvalidSpec if a file has external data."""
    files = [*map(Path, loaded.files)]
    if destination.is_file:
        (graph, *others) = loaded.graphs.values()
        if others or external_data_names(graph):
            names = listed(file.name for file in files)
            raise InvalidSpec(f"the export has the files {names}; name a folder, not one file")
        return {graph: destination.path.name}
    return {file: file.relative_to(Destination(Path(loaded.path)).folder).as_posix() for file in files}
