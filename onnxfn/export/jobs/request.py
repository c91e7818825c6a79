"""`ExportRequest`: what to export and how, as data, and how options, a command line and a report say it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from attrs import evolve, field

from onnxfn.export.jobs.options import (
    OPTIONS,
    SPEC,
    TRANSFORMERS,
    Option,
    Values,
    as_written,
    check_library,
    checked_edits,
    stated,
    value_of,
    with_check,
)
from onnxfn.graphs.build_options import BuildOptions
from onnxfn.graphs.templates.template_cache import default_cache_folder
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.edits.providers import provider_dtype
from onnxfn.specs.edits.tensors import dtype_names
from onnxfn.specs.plan.planning import Decoders
from onnxfn.specs.record import record
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, CheckMode, Floors, check_mode
from onnxfn.weights.layouts import HUB, OPTIMUM
from onnxfn.weights.write import WriteOptions


def _as_text(value: str | PathLike[str]) -> Any:
    return fspath(value) if isinstance(value, str | PathLike) else value


def _as_path(value: Any) -> Any:
    """A path as such; texts, such as a list, a column of a dataset or what a function returns, as a tuple."""
    value = value() if callable(value) else value
    return Path(value) if isinstance(value, str | PathLike) else tuple(value) if isinstance(value, Iterable) else value


@record
class ExportRequest:
    """What to export: a checkpoint, where its files go, and how.

    Attributes:
        checkpoint: The folder of a checkpoint of transformers, or a name on the hub.
        path: The folder of the export.
        spec: The spec; None: the spec for the checkpoint, with `edits`.
        edits: What is changed of the spec for the checkpoint, by the options of `onnxfn export` with underscores, such
            as `{"task": "fill-mask", "shape": {"batch_size": 1}}`. They have no effect with `spec`.
        dtypes: Names of dtypes, as for `export`. Empty: the dtype of the spec.
        decoders: The decoder files, as for `export`.
        adapter: The folder of a LoRA adapter that PEFT wrote, as for `export`.
        calibration: A file with the text that calibrated weights are chosen with, or texts, as for `export`.
        check: How the files are compared with PyTorch: `whole`, `sections` or `none`, as for `export`.
        floors: What quantized and 16-bit files must reach.
        overwrite: Whether `path` may exist.
        dequantize: Whether a quantized checkpoint is exported with float weights.
        trust_remote_code: Whether code of the checkpoint may run.
        revision: The branch, tag or commit of a name on the hub. None: its main branch.
        library: The library that loads the checkpoint: `transformers`, `sentence_transformers`, `timm` or `diffusers`.
        threads: The threads of PyTorch and of ONNX Runtime, as for `export`.
        runs: The arguments of each run of a pipeline, as `--run` has them; components without a row are watched in it.
        write: How files are laid out. Default: the layout `hub`.
        build: How graphs are built. None: with the template cache of the user.

    >>> ExportRequest("models/bert", "onnx/bert", edits={"opset": 20, "task": "fill-mask"}).edits
    (('task', 'fill-mask'), ('opset', 20))
    """

    checkpoint: str = field(converter=_as_text)
    path: str = field(converter=_as_text)
    spec: ExportSpec | None = None
    edits: tuple[tuple[str, Any], ...] = field(default=(), converter=checked_edits)
    dtypes: tuple[str, ...] = field(default=(), converter=dtype_names)
    decoders: Decoders = "merged"
    adapter: Path | None = field(default=None, converter=_as_path)
    calibration: Path | tuple[str, ...] | None = field(default=None, converter=_as_path)
    check: CheckMode = field(default="whole", converter=check_mode)
    floors: Floors = DEFAULT_FLOORS
    overwrite: bool = False
    dequantize: bool = False
    trust_remote_code: bool = False
    revision: str | None = None
    library: str = TRANSFORMERS
    threads: int | None = None
    runs: tuple[str, ...] = field(default=(), converter=as_tuple)
    write: WriteOptions = WriteOptions(layout=HUB)
    build: BuildOptions | None = None

    @property
    def task(self) -> str | None:
        """The task that the edits name."""
        return dict(self.edits).get("task")


def request_of(checkpoint: str, path: str | Path, values: Values) -> ExportRequest:
    """The request that written options make. InvalidSpec for wrong or excluded ones, UnknownName for their values."""
    values = with_check(stated(values))
    library = values.get("library", TRANSFORMERS)
    check_library(library, values)
    if "provider" in values:
        values = {"dtype": [provider_dtype(values["provider"])], **values}
    records: dict[str, dict[str, Any]] = {"": {}, "build": {}}
    records["write"] = {"layout": OPTIMUM if library == "diffusers" else HUB}
    for name, written in values.items():
        record, _, attribute = OPTIONS[name].sets.rpartition(".")
        if attribute and attribute != SPEC:
            records[record][attribute] = value_of(name, written)
    edits = checked_edits({name: written for name, written in values.items() if OPTIONS[name].sets == SPEC})
    build = BuildOptions(**{"template_cache": default_cache_folder(), **records["build"]}) if records["build"] else None
    write = WriteOptions(**records["write"])
    return ExportRequest(checkpoint, path, edits=edits, write=write, build=build, **records[""])


def written(request: ExportRequest) -> dict[str, Any] | None:
    """The written options that make a request: `request_of` returns it for them; None if no options make it."""
    usual = evolve(request_of("", "", {"library": request.library}), library=TRANSFORMERS)
    values = stated({name: _for_option(option, request, usual) for name, option in OPTIONS.items()})
    return values if request_of(request.checkpoint, request.path, values) == request else None


def _for_option(option: Option, request: ExportRequest, usual: ExportRequest) -> Any:
    """The written value of one option; None or False if it is not written."""
    if option.sets == SPEC:
        return as_written(dict(request.edits).get(option.name))
    value = _field(request, option)
    if option.kind is bool:
        return value == option.read(option.flag, True)
    return None if value in (NO_FIELD, _field(usual, option)) else as_written(value)


NO_FIELD = object()
"""The value of an option that sets no field, or a field of a record that is None."""


def _field(request: ExportRequest, option: Option) -> Any:
    """The value of the field that an option sets."""
    value: Any = request
    for name in option.sets.split("."):
        value = getattr(value, name, NO_FIELD)
    return value


def command_line(values: Values, checkpoint: str = "MODEL", path: str = "FOLDER") -> str:
    """The command with these options."""
    words = ["onnxfn", "export", checkpoint, path]
    for name, written in values.items():
        for value in written if isinstance(written, list) else [written]:
            words.extend((OPTIONS[name].flag, *([] if value is True else [str(value)])))
    return shlex.join(words)


def recorded_values(request: ExportRequest) -> dict[str, Any] | None:
    """The options of a request on which its files depend, for a report: without folders of this machine."""
    values = written(evolve(request, overwrite=False, threads=None))
    if values is None:
        return None
    paths = {name: values[name] for name in ("adapter", "calibration") if isinstance(values.get(name), str)}
    named = values | {name: Path(path).name for name, path in paths.items()}
    return {name: value for name, value in named.items() if name not in ("template_cache", "no_template_cache")}


def build_of(request: ExportRequest) -> BuildOptions:
    """How the graphs of a request are built: as it says, or with the template cache of the user."""
    return request.build or BuildOptions(template_cache=default_cache_folder())
