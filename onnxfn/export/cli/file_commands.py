"""The commands about ONNX files and folders that exist: `verify`, `inspect` and `push`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from onnxfn.export.cli.say import say
from onnxfn.export.find.lookup import spec_for
from onnxfn.export.report.graph_summary import graph_files, graph_summary, summary_text
from onnxfn.export.report.push import uploaded, verified
from onnxfn.export.report.verify import verify
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.stored.serialize import to_json


def print_verification(folder: Path) -> None:
    """Prints how the files of an export differ from its report. Exit 1 if one does."""
    verification = verify(folder)
    say(verification)
    if not verification.passed:
        raise typer.Exit(1)


def print_inspected(subject: str, task: str | None, *, as_json: bool) -> None:
    """Prints the spec of a model type, or what the ONNX files at a path have."""
    if _is_path(subject):
        say(_inspected_files(Path(subject), task, as_json=as_json))
    else:
        spec = spec_for(subject, task)
        say(to_json(spec) if as_json else spec)


def push_verified(folder: Path, repository: str, *, private: bool, dry_run: bool) -> None:
    """Uploads the folder of an export after it was verified; nothing in a dry run."""
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
