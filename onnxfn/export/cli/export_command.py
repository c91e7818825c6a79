"""The work of the commands `export` and `batch`: they export models, or plan the exports, and print the results."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer
from attrs import evolve

from onnxfn.export.batch.job_files import read_jobs
from onnxfn.export.batch.many import batch_preview, export_many
from onnxfn.export.batch.records import batch_content, batch_sections, batch_title
from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import jobs_shown, stages
from onnxfn.export.cli.texts import (
    Form,
    pipeline_content,
    pipeline_text,
    plan_content,
    plan_text,
    result_content,
    result_form,
    result_text,
    say_in_form,
    screen,
)
from onnxfn.export.jobs.options import OF_ALL_JOBS, Values, with_check
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.publish.staging import Destination, check_destination
from onnxfn.export.run.diffusers import export_pipeline_request
from onnxfn.export.run.requests import export_request, request_plan
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.errors import OutputExists
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import layout_of


def run(request: ExportRequest, form: Form, *, dry_run: bool) -> None:
    """Exports what a command requests, or only plans it, and prints the result in a form."""
    check_destination(Path(request.path), overwrite=request.overwrite)
    on_event = stages(transient=form != "verbose")
    print_plan = partial(_print_plan, request, form, is_all=dry_run)
    if dry_run:
        print_plan(request_plan(request, on_event))
    elif request.library == "diffusers":
        say_parts(form, request.path, export_pipeline_request(request, on_event))
    else:
        exported = export_request(request, on_event, partial(_before_graphs, print_plan))
        say_in_form(form, partial(result_content, exported), exported, partial(result_text, exported))


def say_parts(form: Form, path: str, parts: Mapping[str, Exported]) -> None:
    """Prints the results of the parts of a program in a form."""
    everything = "\n".join(f"{name}: {part}" for name, part in parts.items())
    say_in_form(form, partial(pipeline_content, path, parts), everything, partial(pipeline_text, path, parts))


def _before_graphs(print_plan: Callable[[Plan], None], plan: Plan) -> None:
    """Prints the plan. What exists by now is no garbage later: not to search it saves a MobileViT 0.3 s of 6.9."""
    print_plan(plan)
    gc.freeze()


def _print_plan(request: ExportRequest, form: Form, plan: Plan, *, is_all: bool) -> None:
    """Prints the task, and the plan where it is all that is printed, or where everything is."""
    if form != "json":
        say(f"task: {plan.task}{'' if request.task else ' (found)'}")
    if is_all or form == "verbose":
        destination = Destination(Path(request.path), layout_of(request.write.layout).subfolder)
        say_in_form(form, partial(plan_content, plan, destination), plan, partial(plan_text, plan))


LOG = "batch.jsonl"
"""The log of a batch, in the folder of its exports."""


def export_listed(jobs: Path, out: Path, values: Values, *, resume: bool, **options: Any) -> None:
    """Runs the jobs of a file or a folder by `export_many`, or prints what it would do; exit code 1 if a job failed."""
    form, is_dry_run = result_form(values), "dry_run" in values
    defaults = with_check({name: values[name] for name in OF_ALL_JOBS if name in values})
    listed = read_jobs(jobs, out, **defaults)
    if is_dry_run:
        result = batch_preview(listed, out / LOG if resume else None)
    else:
        log, overwrite = out / LOG, "overwrite" in values
        if not resume and log.exists():  # of an earlier run that this one does not continue
            if not overwrite:
                advice = "pass --resume to go on, or --overwrite to start again"
                raise OutputExists(f"{log} is the log of an earlier run; {advice}")
            log.unlink()
        listed = tuple(evolve(job, overwrite=job.overwrite or overwrite) for job in listed)
        with jobs_shown() as on_event:
            result = export_many(listed, log=log, on_event=on_event, **options)
    content = partial(batch_content, result, is_dry_run=is_dry_run)
    say_in_form(form, content, result, lambda: screen(batch_title(result), batch_sections(result)))
    if result.failed and not is_dry_run:
        raise typer.Exit(1)
