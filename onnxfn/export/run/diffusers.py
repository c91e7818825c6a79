"""Exports of pipelines of diffusers: each part is a separate export in its own folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.derive.watched import PART_NAMES
from onnxfn.export.jobs.options import check_library, run_arguments
from onnxfn.export.jobs.request import ExportRequest, build_of, written
from onnxfn.export.load.loading import load_library_model
from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, check_destination, staging_folder
from onnxfn.export.report.report_file import with_remark
from onnxfn.export.run.events import OnEvent, ignore, limited, stage_timer
from onnxfn.export.run.loaded import Loaded
from onnxfn.export.run.program_check import check_program
from onnxfn.export.run.program_parts import exported_part, needed_runs, pipeline_parts
from onnxfn.graphs.build_options import BuildOptions
from onnxfn.specs.errors import InvalidSpec, write_errors
from onnxfn.specs.results.measurements import CheckMode
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.checkpoint_files import names_in
from onnxfn.weights.names import name_fault
from onnxfn.weights.write import WriteOptions

INDEX_FILE = "model_index.json"
"""The file that lists the components of a saved pipeline, or the parts of another program."""


def export_pipeline(
    pipeline: Any,
    path: str | Path,
    *,
    run: Callable[[], Any] | Sequence[Callable[[], Any]] = (),
    dtypes: Sequence[str] | Mapping[str, Sequence[str]] = (),
    check: bool | CheckMode = "whole",
    overwrite: bool = False,
    build: BuildOptions = BuildOptions(),
    write: WriteOptions = WriteOptions(),
    on_event: OnEvent = ignore,
    timeout: float | None = None,
) -> dict[str, Exported]:
    """Writes each part of a pipeline of diffusers as `<part>/model.onnx` and checks it against PyTorch.

    If the program has runs, the whole result of the last one on the files is compared with PyTorch's, too. Remarks of
    the plans say what that does not prove. Schedulers, tokenizers and `model_index.json` are written as the
    pipeline saves them; for a program that saves none, the index lists the parts. The files appear when all parts have
    succeeded. If one fails, nothing appears and an earlier export stays as it was.

    Args:
        pipeline: A `diffusers.DiffusionPipeline`, an object with the same `components` and `config`, or any other
            program: a dict of modules by their names, a module with children, a model that generates.
        path: The folder that gets a folder for each part.
        run: A function without arguments that runs the program, or several: what has another size in another run moves
            in the graphs. Components without a row are exported as it calls them. Without one, a pipeline of diffusers
            with such components runs at its smallest sizes.
        dtypes: The dtypes of all parts, as for `export`, or of some by their names. A part that overflows in float16 is
            in float32, and a remark of its plan says so.
        check: How the files are compared with PyTorch: `whole`, `sections` or `none`, as for `export`.
        overwrite: Whether `path` may exist. What an earlier export of a program wrote there, ONNX files, their
            external data and unchanged side files, is deleted if this export does not replace it.
        build: How graphs are built: repeated layers, template cache.
        write: How files are laid out and where weights are stored.
        on_event: Called with an `Event` for each part, as by `export`; its `part` begins with the name of the part,
            such as `unet/model`. An exception that it raises stops the export.
        timeout: Seconds after which the export of all parts is stopped. None: there is no limit.

    Returns:
        The result of `export` for each part, by the name of the part.

    Raises:
        UnknownName: No spec is known for the class of a component, and the program takes a `run`.
        InvalidSpec: `path` ends in `.onnx`; no spec can be derived for a component; or `write` says that weights are
            linked, and a pipeline has no single checkpoint.
        OutputExists, CaptureFailed, CheckFailed, WriteFailed, TimedOut: As `export` raises them.

    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> from transformers import CLIPTextConfig, CLIPTextModel
    >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    >>> encoder = CLIPTextModel(CLIPTextConfig(vocab_size=99, bos_token_id=0, eos_token_id=98, **sizes))
    >>> pipeline = SimpleNamespace(components={"text_encoder": encoder}, config={}, to_json_string=lambda: "{}")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export_pipeline(pipeline, folder)
    >>> exported["text_encoder"].report.passed
    True
    """
    destination = Destination(Path(path))
    if destination.is_file:
        raise InvalidSpec("a pipeline has several files; name a folder, not one file")
    check_destination(destination.path, overwrite=overwrite)
    runs = needed_runs(pipeline, *([run] if callable(run) else run))
    parts = pipeline_parts(pipeline, *runs)
    export_part = partial(exported_part, check=check, build=build, write=write)
    listener = limited(on_event, timeout)
    exported: dict[str, Exported] = {}
    with write_errors(destination.path), staging_folder(destination) as staging:
        for part in parts:
            known: dict[str, Any] = {"config": part.config, "on_event": _listener_of_part(listener, part.name)}
            own = tuple(dtypes.get(part.name, ()) if isinstance(dtypes, Mapping) else dtypes)
            exported[part.name] = export_part(part, staging / part.name, own, **known)
        if runs and check in (True, "whole"):
            with stage_timer(listener) as (timed, _), timed("check", "program"):
                reports = {name: part.report for name, part in exported.items() if part.report}
                differences = {name: [each.max_rel for each in report.differences] for name, report in reports.items()}
                errors = {name: max(each, default=0.0) for name, each in differences.items()}
                remark = check_program(pipeline, staging, runs[-1], errors)
            if remark:
                exported = {name: with_remark(part, staging / name, remark) for name, part in exported.items()}
        of_parts = json.dumps(dict.fromkeys(exported), indent=2)
        text = pipeline.to_json_string() if hasattr(pipeline, "to_json_string") else of_parts
        (staging / INDEX_FILE).write_text(text)
        for name, component in getattr(pipeline, "components", {}).items():
            if not hasattr(component, "forward") and hasattr(component, "save_pretrained"):
                component.save_pretrained(staging / name)
        files = sorted(file for file in staging.rglob("*") if file.is_file())
        # Stale files are those of the parts of this and of an earlier export.
        names = sorted({*exported} | _earlier_parts(destination.folder))
        folders = [Destination(destination.folder / name) for name in names]
        publish(files, staging, destination, overwrite=overwrite, parts=folders)
    return {name: _moved(part, staging, destination.path) for name, part in exported.items()}


def export_pipeline_request(request: ExportRequest, on_event: OnEvent = ignore) -> dict[str, Exported]:
    """`export_pipeline` for a request. InvalidSpec for an option that a whole pipeline cannot have."""
    if request.spec is not None:
        raise InvalidSpec(f"{request.checkpoint} is a pipeline of diffusers, each part has a spec; leave spec out")
    check_library(request.library, written(request) or {})
    with stage_timer(on_event) as (timed, _), timed("load", request.checkpoint):
        how: dict[str, Any] = {"trust_remote_code": request.trust_remote_code, "revision": request.revision}
        pipeline = load_library_model(request.library, request.checkpoint, **how)
    requested: dict[str, Any] = {name: getattr(request, name) for name in ("check", "dtypes", "overwrite", "write")}
    build = evolve(build_of(request), template_cache=None)  # it is of whole models
    runs = [partial(pipeline, **run_arguments(text)) for text in request.runs]
    return export_pipeline(pipeline, Path(request.path), run=runs, build=build, on_event=on_event, **requested)


def _listener_of_part(on_event: OnEvent, name: str) -> OnEvent:
    """A function that adds the name of a part of a pipeline to events and calls `on_event` with them."""
    if on_event is ignore:
        return ignore
    return lambda event: on_event(evolve(event, part=f"{name}/{event.part}".removesuffix("/")))


def _earlier_parts(folder: Path) -> set[str]:
    """The parts of the program that was exported to a folder: those of the components that its index lists."""
    names = {f"{name}{suffix}" for name in names_in(folder / INDEX_FILE) for suffix in PART_NAMES.values()}
    every = (each.name for each in folder.glob("*") if each.is_dir() and name_fault(each.name, folder) is None)
    return {name for name in every if re.sub(r"_\d+$", "", name) in names}


def _moved(exported: Exported, old: Path, new: Path) -> Exported:
    """The result of an export whose files have moved from one folder to another."""
    files = tuple(str(new / Path(file).relative_to(old)) for file in exported.files)
    path = str(new / Path(exported.path).relative_to(old))
    return evolve(exported, path=path, files=files, loaded=Loaded(path, files))
