"""`ExportJob`: what to export and how, as data; the export of its checkpoint, for the command line and for batches."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from attrs import field, frozen

from onnxfn.export.jobs.options import OPTIONS, SPEC, Values, checked_edits, stated, value_of, with_check
from onnxfn.graphs.build import BuildOptions
from onnxfn.graphs.templates.template_cache import default_cache_folder
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.plan.planning import Decoders
from onnxfn.specs.record import typed_fields
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, CheckMode, Floors, check_mode
from onnxfn.specs.short_repr import short_repr
from onnxfn.weights.layouts import HUB
from onnxfn.weights.write import WriteOptions

HUB_LAYOUT = WriteOptions(layout=HUB)


def _as_text(value: str | PathLike[str]) -> Any:
    return fspath(value) if isinstance(value, str | PathLike) else value


def _as_path(value: str | PathLike[str] | None) -> Any:
    return Path(value) if isinstance(value, str | PathLike) else value


@frozen(field_transformer=typed_fields)
class ExportJob:
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
        check: How the files are compared with PyTorch: `whole`, `sections` or `none`, as for `export`.
        floors: What quantized and 16-bit files must reach.
        overwrite: Whether `path` may exist.
        dequantize: Whether a quantized checkpoint is exported with float weights.
        trust_remote_code: Whether code of the checkpoint may run.
        write: How files are laid out. Default: the layout `hub`.
        build: How graphs are built. None: with the template cache of the user.

    >>> ExportJob("models/bert", "onnx/bert", edits={"opset": 20, "task": "fill-mask"}).edits
    (('task', 'fill-mask'), ('opset', 20))
    """

    __repr__ = short_repr

    checkpoint: str = field(converter=_as_text)
    path: str = field(converter=_as_text)
    spec: ExportSpec | None = None
    edits: tuple[tuple[str, Any], ...] = field(default=(), converter=checked_edits)
    dtypes: tuple[str, ...] = field(default=(), converter=as_tuple)
    decoders: Decoders = "merged"
    adapter: Path | None = field(default=None, converter=_as_path)
    check: CheckMode = field(default="whole", converter=check_mode)
    floors: Floors = DEFAULT_FLOORS
    overwrite: bool = False
    dequantize: bool = False
    trust_remote_code: bool = False
    write: WriteOptions = HUB_LAYOUT
    build: BuildOptions | None = None

    @property
    def task(self) -> str | None:
        """The task that the edits name."""
        return dict(self.edits).get("task")


def job_of(checkpoint: str, path: str | Path, values: Values) -> ExportJob:
    """The job that options ask for, at the command line or in a file; `values` has what was written, by their names.

    Raises:
        InvalidSpec: A value is of a wrong type, or two options exclude each other.
        UnknownName: A value is none of those that an option can have.

    >>> job_of("org/bert", "onnx/bert", {"dtype": "q8", "weights": "share"}).write.weight_storage
    'share'
    """
    records: dict[str, dict[str, Any]] = {"": {}, "write": {"layout": HUB}, "build": {}}
    values = with_check(stated(values))
    for name, written in values.items():
        record, _, attribute = OPTIONS[name].sets.rpartition(".")
        if attribute and attribute != SPEC:
            records[record][attribute] = value_of(name, written)
    edits = checked_edits({name: written for name, written in values.items() if OPTIONS[name].sets == SPEC})
    build = BuildOptions(**{"template_cache": default_cache_folder(), **records["build"]}) if records["build"] else None
    return ExportJob(checkpoint, path, edits=edits, write=WriteOptions(**records["write"]), build=build, **records[""])


def build_of(job: ExportJob) -> BuildOptions:
    """How the graphs of a job are built: as it says, or with the template cache of the user."""
    return job.build or BuildOptions(template_cache=default_cache_folder())
