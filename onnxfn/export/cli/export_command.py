"""The command `export`: it exports a model, or plans the export, and prints the result."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.result_json import pipeline_content, plan_content, result_content
from onnxfn.export.cli.say import say
from onnxfn.export.cli.texts import Form, pipeline_text, plan_text, result_form, result_text, say_in_form
from onnxfn.export.jobs.options import Values
from onnxfn.export.jobs.request import ExportRequest, build_of, request_of
from onnxfn.export.load.loading import load_library_model
from onnxfn.export.publish.staging import Destination, check_destination
from onnxfn.export.run.diffusers import export_pipeline
from onnxfn.export.run.events import OnEvent, stage_timer
from onnxfn.export.run.requests import export_request, request_plan
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import layout_of


@frozen
class Command:
    """What the options of the command `export` ask for.

    Attributes:
        request: What to export, and how.
        dry_run: Whether only the plan is printed.
        form: How much of the result is printed.
    """

    request: ExportRequest
    dry_run: bool
    form: Form


def read_command(model: str, out: Path, values: Values) -> Command:
    """What options ask for. InvalidSpec or UnknownName for a value that no export can have."""
    return Command(request_of(model, out, values), "dry_run" in values, result_form(values))


def run(command: Command) -> None:
    """Exports what a command names, or plans it, and prints the result."""
    request = command.request
    check_destination(Path(request.path), overwrite=request.overwrite)
    on_event = stages(transient=command.form != "verbose")
    if command.dry_run:
        _print_plan(command, request_plan(request, on_event))
    elif request.library == "diffusers":
        _export_pipeline(command, on_event)
    else:
        exported = export_request(request, on_event, partial(_print_plan, command))
        _print_result(command, exported)


def _export_pipeline(command: Command, on_event: OnEvent) -> None:
    """Exports each part of a pipeline of diffusers; the template cache is not used."""
    request = command.request
    with stage_timer(on_event) as (timed, _), timed("load", request.checkpoint):
        trust = request.trust_remote_code
        pipeline = load_library_model(request.library, request.checkpoint, trust_remote_code=trust)
    exported = export_pipeline(
        pipeline,
        Path(request.path),
        check=request.check,
        overwrite=request.overwrite,
        build=evolve(build_of(request), template_cache=None),
        write=request.write,
        on_event=on_event,
    )
    everything = "\n".join(f"{name}: {part}" for name, part in exported.items())
    content, brief = partial(pipeline_content, request.path, exported), partial(pipeline_text, request.path, exported)
    say_in_form(command.form, content, everything, brief)


def _print_plan(command: Command, plan: Plan) -> None:
    """Prints the task, and the plan where it is all that is printed, or where everything is."""
    request = command.request
    if command.form != "json":
        say(f"task: {plan.task}{'' if request.task else ' (found)'}")
    if command.dry_run or command.form == "verbose":
        content = partial(
            plan_content, plan, Destination(Path(request.path), layout_of(request.write.layout).subfolder)
        )
        say_in_form(command.form, content, plan, partial(plan_text, plan))


def _print_result(command: Command, exported: Exported) -> None:
    """Prints the result of an export."""
    say_in_form(command.form, partial(result_content, exported), exported, partial(result_text, exported))
