"""The work of the commands `export`, `batch` and `watch`: they export models, or plan that, and print the results."""

import runpy
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer
from attrs import evolve

from onnxfn.export.batch.job_files import read_jobs
from onnxfn.export.batch.many import batch_preview, export_many
from onnxfn.export.batch.records import batch_content, batch_sections, batch_title
from onnxfn.export.cli import texts
from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import jobs_shown, stages
from onnxfn.export.jobs.options import OF_ALL_JOBS, Values, with_check
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.publish.staging import Destination, check_destination
from onnxfn.export.run.diffusers import export_pipeline, export_pipeline_request
from onnxfn.export.run.requests import export_request, request_plan
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OutputExists, listed
from onnxfn.specs.results.result_facts import everything, exported_facts, screen
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import layout_of


def named_after(model: str) -> Path:
    """The folder in the current one that is named after a model; the model's own folder is another."""
    source = Path(model)
    folder = Path((source if source.name else source.resolve()).name.removesuffix(".gguf") or "model")
    is_own = source.exists() and folder.resolve() == source.resolve()
    return folder.with_name(f"{folder.name}-onnx") if is_own else folder


def checked_push(request: ExportRequest, values: Values) -> str | None:
    """The repository of `--push`; InvalidSpec if nothing could be uploaded, or if the files were not checked."""
    repository: str | None = values.get("push")
    if repository is None:
        return None
    if "dry_run" in values or request.check == "none" or request.path.endswith(".onnx"):
        raise InvalidSpec("--push uploads a folder that was checked; leave out --dry-run and --no-check, name a folder")
    from huggingface_hub import get_token

    if repository.strip("/").count("/") != 1:
        raise InvalidSpec(f"--push {repository} is no repository of the hub; write it as me/my-model")
    if get_token() is None:
        raise InvalidSpec("--push needs a token of the hub: run `hf auth login`, or pass --token")
    return repository


def run(request: ExportRequest, form: texts.Form, *, dry_run: bool) -> None:
    """Exports what a command requests, or only plans it, and prints the result in a form."""
    check_destination(Path(request.path), overwrite=request.overwrite)
    on_event = stages(transient=form != "verbose")
    print_plan = partial(_print_plan, request, form, is_all=dry_run)
    if dry_run:
        print_plan(request_plan(request, on_event))
    elif request.library == "diffusers":
        say_parts(form, request.path, export_pipeline_request(request, on_event))
    else:
        exported = export_request(request, on_event, print_plan)
        content, text = partial(texts.result_content, exported), partial(texts.result_text, exported)
        texts.say_in_form(form, content, lambda: everything(exported_facts(exported)), text)


def say_parts(form: texts.Form, path: str, parts: Mapping[str, Exported]) -> None:
    """Prints the results of the parts of a program in a form."""
    whole = (f"{name}: {everything(exported_facts(part))}" for name, part in parts.items())
    content, text = partial(texts.pipeline_content, path, parts), partial(texts.pipeline_text, path, parts)
    texts.say_in_form(form, content, lambda: "\n".join(whole), text)


def _print_plan(request: ExportRequest, form: texts.Form, plan: Plan, *, is_all: bool) -> None:
    """Prints the task, and the plan where it is all that is printed, or where everything is."""
    if form != "json":
        say(f"task: {plan.task}{'' if request.task else ' (found)'}")
    if is_all or form == "verbose":
        destination = Destination(Path(request.path), layout_of(request.write.layout).subfolder)
        content, text = partial(texts.plan_content, plan, destination), partial(texts.plan_text, plan)
        texts.say_in_form(form, content, lambda: plan, text)


LOG = "batch.jsonl"
"""The log of a batch, in the folder of its exports."""


def export_listed(jobs: Path, out: Path, values: Values, *, resume: bool, **options: Any) -> None:
    """Runs the jobs of a file or a folder by `export_many`, or prints what it would do; exit code 1 if a job failed."""
    form, is_dry_run = texts.result_form(values), "dry_run" in values
    listed = read_jobs(jobs, out, **with_check({name: values[name] for name in OF_ALL_JOBS if name in values}))
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
    texts.say_in_form(form, content, lambda: result, lambda: screen(batch_title(result), batch_sections(result)))
    if any(job.error for job in result.jobs):  # also of a dry run, whose planned jobs have not failed
        raise typer.Exit(1)


def export_script(script: Path, out: Path, modules: Sequence[str], runs: Sequence[str], values: Values) -> None:
    """Runs a script but for its `__main__` part, watches modules in runs of it, exports them and prints the result."""
    if not script.is_file():
        raise ModelNotFound(f"there is no file {script}; watch takes a Python script")
    sys.path.insert(0, str(script.parent.resolve()))  # as Python does for a script
    names = runpy.run_path(str(script))
    program = dict(_named_module(text, names) for text in modules)
    form = texts.result_form(values)
    options = with_check({name: value for name, value in values.items() if name not in ("json", "verbose")})
    watched = [partial(_value, text, names, "--run") for text in runs]
    parts = export_pipeline(program, out, run=watched, on_event=stages(transient=form != "verbose"), **options)
    say_parts(form, str(out), parts)


def _named_module(text: str, names: Mapping[str, Any]) -> tuple[str, Any]:
    name, _, expression = text.partition("=")
    if not name.isidentifier() or not expression:
        raise InvalidSpec(f"--modules {text} has no name or no expression; write --modules encoder=model.encoder")
    module = _value(expression, names, "--modules")
    if not hasattr(module, "state_dict"):
        raise InvalidSpec(f"--modules {text} is of the type {type(module).__name__}, and not an nn.Module")
    return name, module


def _value(expression: str, names: Mapping[str, Any], option: str) -> Any:
    """The value of an expression of a script that the user runs anyway."""
    try:
        return eval(compile(expression, option, "eval"), dict(names))  # noqa: S307
    except (SyntaxError, NameError, AttributeError) as error:
        own = listed([name for name in names if not name.startswith("_")])
        raise InvalidSpec(f"{option} {expression}: {error}; names of the script: {own}") from error
