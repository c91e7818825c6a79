"""The commands about ONNX files and folders that exist: `verify`, `inspect` and `push`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxfn.export import cli_flags as flags
from onnxfn.export.cli_errors import one_line_errors
from onnxfn.export.cli_print import say
from onnxfn.export.graph_summary import graph_files, graph_summary, summary_text
from onnxfn.export.lookup.lookup import spec_for
from onnxfn.export.push import uploaded, verified
from onnxfn.export.verify import verify
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.serialize import to_json

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def verify_command(
    folder: Annotated[Path, typer.Argument(help="The folder of an export.")], *, debug: flags.Debug = False
) -> None:
    """Compare the files of an export with its report.json, without the model. Exit code 1 if one differs."""
    with one_line_errors(debug=debug):
        verification = verify(folder)
    say(verification)
    if not verification.passed:
        raise typer.Exit(1)


def inspect_command(
    subject: Annotated[
        str, typer.Argument(help="A model type, such as bert; an ONNX file; or the folder of an export.")
    ],
    task: Annotated[str | None, typer.Option(help="Show the spec of a model type for this task.")] = None,
    *,
    json_: Json = False,
    debug: flags.Debug = False,
) -> None:
    """Show the spec of a model type, or what an ONNX file has: inputs, outputs, operators, bytes of the weights."""
    with one_line_errors(debug=debug):
        if _is_path(subject):
            say(_inspected_files(Path(subject), task, as_json=json_))
        else:
            spec = spec_for(subject, task)
            say(to_json(spec) if json_ else spec)


def push_command(
    folder: Annotated[Path, typer.Argument(help="The folder of an export.")],
    repository: Annotated[str, typer.Argument(help="The repository on the hub, such as me/my-model.")],
    *,
    private: Annotated[bool, typer.Option("--private", help="Create the repository as a private one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Verify and list the files; upload nothing.")] = False,
    debug: flags.Debug = False,
) -> None:
    """Upload the folder of an export to the hub, after it was verified. The token is that of `hf auth login`."""
    with one_line_errors(debug=debug):
        verification = verified(folder)
        say(verification)
        say("nothing was uploaded" if dry_run else uploaded(folder, repository, private=private))


def _is_path(subject: str) -> bool:
    """Whether a subject is a path rather than a model type: it ends in .onnx, has a slash, or is a folder."""
    return subject.endswith(".onnx") or "/" in subject or Path(subject).is_dir()


def _inspected_files(path: Path, task: str | None, *, as_json: bool) -> str:
    """What the ONNX files at a path have, as text or as JSON. InvalidSpec for a task: a file has none."""
    if task is not None:
        raise InvalidSpec(f"--task is for a model type, and {path} is a path; leave it out")
    summaries: dict[str, Any] = {file.name: graph_summary(file) for file in graph_files(path)}
    return json.dumps(summaries, indent=2) if as_json else "\n".join(map(summary_text, summaries, summaries.values()))
