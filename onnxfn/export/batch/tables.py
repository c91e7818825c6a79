"""The result of many exports as a table and as JSON, and what they would do as JSON.

The functions know the fields of the records, and import none of them, because the records import this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import asdict

from onnxfn.specs.measurements import with_heads
from onnxfn.specs.printing import Sections, file_size

SCHEMA, SCHEMA_VERSION = "onnxfn-batch", 1
"""What the JSON says it is. The version grows when a field changes its meaning or goes; new fields may come."""

STATUSES = ("exported", "unchanged", "failed", "timed out", "out of memory", "lost")
"""How a job can end, in the order of the title."""

HEAD = ("path", "status", "seconds", "memory", "files", "starts")


def batch_title(result: Any) -> str:
    """The number of jobs of each status, and the time of all of them."""
    counts = ", ".join(f"{number} {status}" for status, number in status_counts(result.jobs).items()) or "none"
    return f"{len(result.jobs)} jobs in {result.seconds:.1f} s: {counts}"


def batch_sections(result: Any) -> Sections:
    """The jobs that failed with their errors, then all jobs with their figures."""
    failed = [(job.path, job.status, job.error) for job in result.failed]
    rows = [_row(job) for job in result.jobs]
    return [("failed", failed), ("jobs", with_heads(HEAD, rows) if rows else [])]


def batch_content(result: Any) -> dict[str, Any]:
    """A result as JSON has it."""
    jobs = [asdict(job) for job in result.jobs]
    return {**_head(is_dry_run=False), "seconds": result.seconds, "counts": status_counts(result.jobs), "jobs": jobs}


def preview_content(previewed: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Tasks and results, as `preview_jobs` returns them, as JSON has them."""
    jobs = [
        {"checkpoint": task.job.checkpoint, "path": task.job.path, "status": "planned", "needed_bytes": task.bytes}
        if result is None
        else asdict(result)
        for task, result in previewed
    ]
    return {**_head(is_dry_run=True), "jobs": jobs}


def status_counts(jobs: Iterable[Any]) -> dict[str, int]:
    """How many jobs have each status, without the statuses that none has."""
    statuses = [job.status for job in jobs]
    return {status: statuses.count(status) for status in STATUSES if status in statuses}


def _head(*, is_dry_run: bool) -> dict[str, Any]:
    return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "dry_run": is_dry_run}


def _row(job: Any) -> tuple[str, ...]:
    sizes = [file_size(size).partition(",")[0] if size else "" for size in (job.memory_bytes, job.file_bytes)]
    seconds = f"{job.seconds:.1f} s" if job.seconds else ""
    return (job.path, job.status, seconds, *sizes, str(job.attempts) if job.attempts > 1 else "")
