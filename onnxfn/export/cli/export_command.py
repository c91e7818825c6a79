"""The command `export`: it exports a model, or plans the export, and prints the result."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path

from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import stages
from onnxfn.export.cli.texts import (
    Form,
    pipeline_content,
    pipeline_text,
    plan_content,
    plan_text,
    result_content,
    result_text,
    say_in_form,
)
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.publish.staging import Destination, check_destination
from onnxfn.export.run.diffusers import export_pipeline_request
from onnxfn.export.run.requests import export_request, request_plan
from onnxfn.specs.algebra.planned import Plan
from onnxfn.weights.layouts import layout_of


def run(request: ExportRequest, form: Form, *, dry_run: bool) -> None:
    """Exports what a command requests, or only plans it, and prints the result in a form."""
    check_destination(Path(request.path), overwrite=request.overwrite)
    on_event = stages(transient=form != "verbose")
    print_plan = partial(_print_plan, request, form, is_all=dry_run)
    if dry_run:
        print_plan(request_plan(request, on_event))
    elif request.library == "diffusers":
        parts = export_pipeline_request(request, on_event)
        everything = "\n".join(f"{name}: {part}" for name, part in parts.items())
        content, brief = partial(pipeline_content, request.path, parts), partial(pipeline_text, request.path, parts)
        say_in_form(form, content, everything, brief)
    else:
        exported = export_request(request, on_event, partial(_before_graphs, print_plan))
        say_in_form(form, partial(result_content, exported), exported, partial(result_text, exported))


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
