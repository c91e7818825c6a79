"""What the command `export` does: it finds the spec, loads the model, exports it, prints the plan and the result."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.result_json import pipeline_content, plan_content, result_content
from onnxfn.export.cli.say import say
from onnxfn.export.cli.texts import Form, pipeline_text, plan_text, result_form, result_text, say_in_form
from onnxfn.export.find.lookup import has_row
from onnxfn.export.jobs.jobs import ExportJob, build_of, job_of
from onnxfn.export.jobs.options import Values, check_library
from onnxfn.export.load.gguf import checked_gguf, is_gguf, load_gguf, load_gguf_tokenizer
from onnxfn.export.load.loading import (
    checkpoint_folder,
    load_configuration,
    load_library_model,
    model_without_weights,
)
from onnxfn.export.load.quantized import checked_quantization
from onnxfn.export.publish.staging import Destination, check_destination
from onnxfn.export.run.diffusers import export_pipeline
from onnxfn.export.run.events import OnEvent, stage_timer
from onnxfn.export.run.job_exports import export_job, export_loaded, job_plan, job_spec
from onnxfn.export.run.weight_sizes import with_weight_bytes
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import OPTIMUM, layout_of


@frozen
class ExportRequest:
    """What the options of the command `export` ask for.

    Attributes:
        job: What to export, and how.
        dry_run: Whether only the plan is printed.
        form: How much of the result is printed.
    """

    job: ExportJob
    dry_run: bool
    form: Form


def export_request(model: str, out: Path, values: Values) -> ExportRequest:
    """What options ask for. InvalidSpec or UnknownName for a value that no export can have."""
    library = values.get("library", "transformers")
    check_library(library, values)
    job = job_of(model, out, {"layout": OPTIMUM, **values} if library == "diffusers" else values)
    return ExportRequest(job, "dry_run" in values, result_form(values))


DRY_RUN_LIBRARIES = ("transformers", "timm")
"""The libraries that make a model of a folder without its weights."""


def export_from_library(library: str, request: ExportRequest) -> None:
    """Exports what a library loads: a checkpoint of transformers, a pipeline of diffusers, or another model."""
    check_destination(Path(request.job.path), overwrite=request.job.overwrite)
    if request.dry_run and library not in DRY_RUN_LIBRARIES:
        raise InvalidSpec(
            f"--dry-run reads no weight, and {library} makes no model without its weights; leave --dry-run out, or "
            "name a folder in it with a checkpoint of transformers, with --library transformers"
        )
    on_event = stages(transient=request.form != "verbose")
    if library == "diffusers":
        _export_pipeline(request, on_event)
    elif library != "transformers":
        _export_library_model(library, request, on_event)
    elif is_gguf(request.job.checkpoint):
        _export_gguf(Path(request.job.checkpoint), request, on_event)
    elif request.dry_run:
        _print_plan_of_checkpoint(request)
    else:
        _print_result(export_job(request.job, on_event, lambda plan: _print_plan(plan, request)), request)


def _export_gguf(file: Path, request: ExportRequest, on_event: OnEvent) -> None:
    """Exports the model in a GGUF file, with its tokenizer."""
    dequantize = request.job.dequantize
    checked_gguf(file, dequantize=dequantize)
    with TemporaryDirectory() as folder:
        with stage_timer(on_event) as (timed, _), timed("load", request.job.checkpoint) as tick:
            model = load_gguf(file, dequantize=dequantize, tick=tick)
        load_gguf_tokenizer(file).save_pretrained(folder)
        _export_loaded(request.job, model, Path(folder), request, on_event)


def _export_library_model(library: str, request: ExportRequest, on_event: OnEvent) -> None:
    """Exports a model of timm or sentence_transformers; the template cache is not used."""
    job = evolve(request.job, build=evolve(build_of(request.job), template_cache=None))
    with stage_timer(on_event) as (timed, _), timed("load", job.checkpoint):
        model = load_library_model(library, job.checkpoint, with_weights=not request.dry_run)
    folder = Path(job.checkpoint)
    checkpoint = folder if folder.is_dir() else None  # a name on the hub
    _export_loaded(job, model, checkpoint, request, on_event)


def _export_loaded(
    job: ExportJob, model: Any, checkpoint: Path | None, request: ExportRequest, on_event: OnEvent
) -> None:
    """Prints the plan of a model that is loaded, and exports it unless the run is dry."""
    spec = job_spec(job, model)
    _print_planned(spec, model, request)
    if not request.dry_run:
        _print_result(export_loaded(job, spec, model, checkpoint, on_event), request)


def _print_plan_of_checkpoint(request: ExportRequest) -> None:
    """Prints the plan of a checkpoint. Without a row its spec is derived from a model without weights."""
    job = request.job
    folder = checkpoint_folder(job.checkpoint)
    checked_quantization(job.checkpoint, dequantize=job.dequantize)
    config = load_configuration(folder, trust_remote_code=job.trust_remote_code)
    try:
        spec = job_spec(job, config)
    except InvalidSpec as error:
        if has_row(config):
            raise
        raise InvalidSpec(f"{config.model_type} has no row; leave --dry-run out: {error}") from error
    _print_planned(spec, config, request)


def _export_pipeline(request: ExportRequest, on_event: OnEvent) -> None:
    """Exports each part of a pipeline of diffusers; the template cache is not used."""
    job = request.job
    with stage_timer(on_event) as (timed, _), timed("load", job.checkpoint):
        pipeline = load_library_model("diffusers", job.checkpoint)
    exported = export_pipeline(
        pipeline,
        Path(job.path),
        check=job.check,
        overwrite=job.overwrite,
        build=evolve(build_of(job), template_cache=None),
        write=job.write,
        on_event=on_event,
    )
    everything = "\n".join(f"{name}: {part}" for name, part in exported.items())
    content, brief = partial(pipeline_content, job.path, exported), partial(pipeline_text, job.path, exported)
    say_in_form(request.form, content, everything, brief)


def _print_planned(spec: ExportSpec, known: Any, request: ExportRequest) -> None:
    """Prints the plan for a configuration or a model; in a dry run with the bytes of its weights."""
    planned = job_plan(request.job, spec, known)
    if request.dry_run:
        trust, first = request.job.trust_remote_code, planned.parts[0].spec
        is_model = hasattr(known, "state_dict")
        model = known if is_model else model_without_weights(known, first, trust_remote_code=trust)
        planned = with_weight_bytes(planned, model)
    _print_plan(planned, request)


def _print_plan(plan: Plan, request: ExportRequest) -> None:
    """Prints the task, and the plan where it is all that is printed, or where everything is."""
    if request.form != "json":
        say(f"task: {plan.task}{'' if request.job.task else ' (found)'}")
    if request.dry_run or request.form == "verbose":
        subfolder = layout_of(request.job.write.layout).subfolder
        content = partial(plan_content, plan, Destination(Path(request.job.path), subfolder))
        say_in_form(request.form, content, plan, partial(plan_text, plan))


def _print_result(exported: Exported, request: ExportRequest) -> None:
    """Prints the result of an export."""
    say_in_form(request.form, partial(result_content, exported), exported, partial(result_text, exported))
