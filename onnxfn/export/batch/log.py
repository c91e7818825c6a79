"""The log of many exports: a line of JSON for each job that ended. A later run reads what need not be done again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, fields_dict

from onnxfn.export.batch.records import JobResult
from onnxfn.export.report.report_file import recorded
from onnxfn.specs.errors import OnnxfnError


def log_result(file: Path | None, result: JobResult) -> None:
    """Adds a result to the end of a log, if there is one."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(result)) + "\n")


def logged_results(file: Path | None) -> Mapping[str, JobResult]:
    """From the path of each export in a log to its last result; other lines are skipped.

    A run that was killed may have left half a line.
    """
    if file is None or not file.is_file():
        return {}
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    results = filter(None, map(_result, lines))
    return {result.path: result for result in results}


def is_unchanged(result: JobResult, digest: str) -> bool:
    """Whether a job of a digest has an earlier result, and its files are there with their sizes.

    The files are not read: `verify` does that.
    """
    return result.succeeded and result.digest == digest and _is_complete(Path(result.path))


def _result(line: str) -> JobResult | None:
    try:
        values: Any = json.loads(line)
        return JobResult(**{name: values[name] for name in fields_dict(JobResult) if name in values})
    except (ValueError, TypeError, KeyError, RecursionError, OnnxfnError):
        return None


def _is_complete(folder: Path) -> bool:
    """Whether all files in the report of a folder exist with the stated sizes."""
    report = recorded(folder)
    if report is None:
        return False
    sizes = ((folder / name, facts.bytes) for name, facts in report.files.items())
    return all(file.is_file() and file.stat().st_size == size for file, size in sizes)
