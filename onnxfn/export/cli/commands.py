"""The command line. A command imports its modules when it runs, so that the help is as fast as typer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from onnxfn.export.cli.flags import Out, command, say
from onnxfn.export.cli.optimum_words import our_word, refuse_other_words
from onnxfn.export.jobs.options import OF_ALL_JOBS, OF_HUB, OPTIONS, Values
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.version import VERSION

Folder = Annotated[Path, typer.Argument(help="The folder of an export.")]

# Where an option of `onnxfn` itself is left out, typer imports pydantic: half of the time of the help of a command.
_HELP_OF_COMMAND = sys.argv[2:] == ["--help"]

app: typer.Typer = typer.Typer(
    name="onnxfn",
    help="Export PyTorch and Hugging Face models to ONNX and check the files against PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=not _HELP_OF_COMMAND,
    add_help_option=not _HELP_OF_COMMAND,
)


def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The folder of a checkpoint, a GGUF file, or a name on the hub.")],
    out: Annotated[
        Path | None, typer.Argument(help="A folder or .onnx file. Default: a folder named after MODEL.")
    ] = None,
    *,
    values: Values,
) -> None:
    """Export a checkpoint, with its configuration and tokenizer files."""
    refuse_other_words((model, *([] if out is None else [str(out)]), *context.args), values)
    from onnxfn.export.cli.export_command import checked_push, named_after, run
    from onnxfn.export.cli.texts import result_form
    from onnxfn.export.jobs.request import request_of

    form = result_form(values)
    request = request_of(model, named_after(model) if out is None else out, values)
    repository = checked_push(request, values)
    if out is None:
        say(f"no OUT: the files go to {request.path}", err=True)
    run(request, form, dry_run="dry_run" in values)
    if repository is not None:
        from onnxfn.export.report.push import uploaded

        say(uploaded(Path(request.path), repository), err=form == "json")


def verify(folder: Folder) -> None:
    """Compare the files of an export with its report.json, without the model. Exit code 1 if one differs."""
    from onnxfn.export.report.verify import verify as verification_of

    verification = verification_of(folder)
    say(verification)
    if not verification.passed:
        raise typer.Exit(1)


def report(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="The HTML file. Default: FOLDER.html, beside the folder.")] = None,
    *,
    values: Values,
) -> None:
    """Write the report of an export as a page: its files, inputs and outputs, errors, and weights."""
    from onnxfn.export.report.folder_report import write_page

    page = folder.with_name(f"{folder.resolve().name}.html") if out is None else out
    say(write_page(folder, page, overwrite="overwrite" in values))


def inspect(
    subject: Annotated[str, typer.Argument(help="A model type, an ONNX file, or the folder of an export.")],
    task: Annotated[str | None, typer.Option(help="Show the spec of a model type for this task.")] = None,
    *,
    values: Values,
) -> None:
    """Show the spec of a model type, or the contents of an ONNX file: inputs, outputs, operators, bytes of weights."""
    from onnxfn.export.cli.texts import spec_text
    from onnxfn.export.find.lookup import spec_for, tasks_for
    from onnxfn.export.report.graph_summary import graph_files, graph_summary, summary_text
    from onnxfn.specs.stored.serialize import to_json

    if not (subject.endswith(".onnx") or "/" in subject or Path(subject).exists()):
        try:
            known = tasks_for(subject)
        except UnknownName as error:
            raise UnknownName(f"there is no file or folder {subject}, and {error}") from error
        spec = spec_for(subject, task)
        say(to_json(spec) if "json" in values else spec_text(spec, known))
        return
    if task is not None:
        raise InvalidSpec(f"--task is for a model type, and {subject} is a path; leave it out")
    files = graph_files(Path(subject))
    is_pipeline = len({file.parent for file in files}) > 1
    names = [f"{file.parent.name}/{file.name}" if is_pipeline else file.name for file in files]
    summaries = dict(zip(names, map(graph_summary, files), strict=True))
    texts = map(summary_text, summaries, summaries.values())
    say(json.dumps(summaries, indent=2) if "json" in values else "\n".join(texts))


def push(
    folder: Folder,
    repository: Annotated[str, typer.Argument(help="The repository on the hub, such as me/my-model.")],
    *,
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    values: Values,
) -> None:
    """Verify the folder of an export and upload it to the hub. The token is that of `hf auth login`."""
    from onnxfn.export.report.push import uploaded, uploaded_files, verified

    say(verified(folder))
    if "dry_run" in values:
        say("\n".join(file.relative_to(folder).as_posix() for file in uploaded_files(folder)))
    say("nothing was uploaded" if "dry_run" in values else uploaded(folder, repository, private=private))


def batch(
    jobs: Annotated[Path, typer.Argument(help="A folder of checkpoints, or a file with a job in JSON a line.")],
    out: Annotated[Path, typer.Argument(help="The folder of the exports; it also gets the log, batch.jsonl.")],
    *,
    workers: Annotated[int | None, typer.Option(min=1, help="Jobs at a time. Default: one for each processor.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip unchanged jobs of a run; redo others.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Time limit of a job in seconds.")] = None,
    memory: Annotated[float | None, typer.Option(help="Memory limit of a job in gigabytes.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often a job is restarted if its process was killed.")] = 1,
    total_memory: Annotated[float | None, typer.Option(help="Gigabytes for all jobs. Default: what is free.")] = None,
    values: Values,
) -> None:
    """Export many checkpoints, each in its own process. Exit code 1 if a job failed, after all others have ended."""
    from onnxfn.export.batch.records import JobLimits
    from onnxfn.export.cli.export_command import export_listed

    limits = JobLimits(seconds=seconds, memory_bytes=_bytes(memory))
    options = {"workers": workers, "limits": limits, "memory": _bytes(total_memory), "retries": retries}
    export_listed(jobs, out, values, resume=resume, **options)


def _bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else int(gigabytes * 10**9)


def tasks(model_type: Annotated[str, typer.Argument(help="A model type, such as bert, or a checkpoint.")]) -> None:
    """List the tasks of a model type."""
    from onnxfn.export.find.lookup import tasks_for

    config = Path(model_type, "config.json")
    say("\n".join(tasks_for(json.loads(config.read_bytes()).get("model_type", "") if config.is_file() else model_type)))


def cache(
    folder: Annotated[Path | None, typer.Option(help="The cache folder. Default: the user's.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the files of the cache.")] = False,
) -> None:
    """Show the cache of graphs without weights: its folder, the number of its files, their size."""
    from onnxfn.graphs.templates.template_cache import cache_entries, clear_cache, default_cache_folder

    folder = folder or default_cache_folder()
    entries = (clear_cache if clear else cache_entries)(folder)
    size, files = sum(entry.size for entry in entries), "file" if len(entries) == 1 else "files"
    say(f"{folder}: {'deleted ' if clear else ''}{len(entries)} {files}, {size / 10**6:.1f} MB")


def watch(
    script: Annotated[Path, typer.Argument(help="A Python script that makes a program; its __main__ part is not run.")],
    out: Annotated[Path, typer.Argument(help="A folder, which gets a folder for each module.")],
    *,
    modules: Annotated[list[str], typer.Option(help="NAME=EXPRESSION of a module, such as encoder=model.encoder.")],
    run: Annotated[list[str], typer.Option(help="An expression, such as 'main(2)'; what differs in others moves.")],
    values: Values,
) -> None:
    """Export modules as a script calls them, each with a folder of its own in OUT."""
    from onnxfn.export.cli.export_command import export_script

    export_script(script, out, modules, run, values)


def guide(
    topic: Annotated[str | None, typer.Argument(help="A page of the list; without it, all pages are listed.")] = None,
) -> None:
    """Print a page of the guide, such as decoder, or list the pages."""
    from onnxfn.export.cli.pages import index, print_page

    if topic is None:
        say(index())
    else:
        print_page(topic)


def doctor() -> None:
    """Show versions, providers, cores, memory, disk and the cache of the hub, and what to do where something is off."""
    from onnxfn.export.report.doctor import doctor as diagnosis

    say(diagnosis())


def demonstrate(out: Out, values: Values) -> None:
    """Export a real model, check it, and use it: all-MiniLM-L6-v2 compares sentences."""
    from onnxfn.export.cli.demo import demo
    from onnxfn.export.publish.staging import check_destination

    overwrite = "overwrite" in values
    check_destination(out, overwrite=overwrite)
    demo(out, overwrite=overwrite)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        say(VERSION)
        raise typer.Exit


app.command(
    "export",
    # `refuse_other_words` has better words for unknown options
    context_settings={
        "token_normalize_func": our_word,
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_extra_args": True,
    },
)(command(export, *(name for name in OPTIONS if name != "debug"), is_long=True))
app.command("verify")(command(verify))
app.command("report")(command(report, "overwrite"))
app.command("inspect")(command(inspect, "json"))
app.command("push")(command(push, "dry_run", *OF_HUB))
app.command("batch")(command(batch, *OF_ALL_JOBS, *OF_HUB, "dry_run", "json", "verbose", "overwrite"))
app.command("watch")(command(watch, "check", "no_check", "overwrite", "json", "verbose"))
app.command("tasks")(command(tasks))
app.command("cache")(command(cache))
app.command("guide")(command(guide))
app.command("doctor")(command(doctor))
app.command("demo")(command(demonstrate, "overwrite"))
