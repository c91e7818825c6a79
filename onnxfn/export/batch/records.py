"""The records of many exports: what to export, how much each may use, how each ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from attrs import asdict, field

from onnxfn.specs.converters import as_tuple
from onnxfn.specs.record import record
from onnxfn.specs.results.measurements import with_heads
from onnxfn.specs.results.printing import Sections, file_size, text
from onnxfn.specs.short_repr import counted

Status = Literal["planned", "exported", "unchanged", "failed", "timed out", "out of memory", "lost"]
"""The possible ends of a job, in the order of the title; `planned` if nothing was to be exported."""

SUCCESSES: tuple[str, ...] = ("exported", "unchanged")
"""The statuses of a job whose files are at the destination."""


@record(kw_only=True)
class JobLimits:
    """The limits of each job. A job that exceeds them is stopped; the others continue.

    Attributes:
        seconds: Seconds from the start of the job. None: no limit.
        memory_bytes: Bytes of anonymous memory of its process. Pages of files that are mapped into memory do not
            count: the system can drop them. None: no limit.

    >>> JobLimits(seconds=600, memory_bytes=8 * 2**30).seconds
    600
    """

    seconds: float | None = None
    memory_bytes: int | None = None


@record
class JobResult:
    """The outcome of a job.

    Attributes:
        checkpoint: The checkpoint of the job.
        path: The folder of the export.
        status: `exported`; `unchanged`: an earlier run has exported it, and nothing has changed since; `failed`: the
            export raised an error; `timed out` and `out of memory`: it used more than its limits; `lost`: its process
            was killed; `planned`: `batch_preview` says that it would run.
        seconds: How long the last attempt took.
        memory_bytes: The peak of anonymous memory of its process, seen 20 times a second; of a planned job a bound.
        file_bytes: The bytes of the files of the export.
        task: The task of the export; empty if it failed.
        attempts: How often the job was started, at the last time that it had to be; 1 at least.
        error: The error in one line; empty for an export.
        digest: A digest of the checkpoint, the job and the versions of packages. A later run compares it.
    """

    checkpoint: str
    path: str
    status: Status
    seconds: float = 0.0
    memory_bytes: int = 0
    file_bytes: int = 0
    task: str = ""
    attempts: int = 1
    error: str = ""
    digest: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the files of the job are at its path."""
        return self.status in SUCCESSES


@record
class BatchResult:
    """The outcome of a batch. Prints as a table with one row per job.

    Attributes:
        jobs: The result of each job, in the order of the jobs.
        seconds: How long all of them took together.
    """

    jobs: tuple[JobResult, ...] = field(converter=as_tuple)
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[JobResult, ...]:
        """The results of the jobs that did not succeed."""
        return tuple(job for job in self.jobs if job.status not in (*SUCCESSES, "planned"))

    def __str__(self) -> str:
        """The number of jobs of each status, the error of each job that failed, and a row for each job."""
        return text(batch_title(self), batch_sections(self))


@record
class BatchEvent:
    """The current step of many exports. `export_many` calls `on_event` with it, in its own thread.

    Attributes:
        path: The folder of the export that starts or ends.
        status: `start`, `retry`, or the status of the job that ended. A job that does not run has no `start`.
        completed: How many jobs have ended.
        total: The number of all jobs.
        seconds: Seconds since the first job started.
        remaining: Seconds until the last job ends, if the others take as long as those so far; None before
            one of those that had to run has ended.
    """

    path: str
    status: str
    completed: int
    total: int
    seconds: float = 0.0
    remaining: float | None = None


OnBatchEvent = Callable[[BatchEvent], None]
"""Is called with an event when a job starts, is started again, and ends. What it raises ends all jobs."""

SCHEMA, SCHEMA_VERSION = "onnxfn-batch", 1
"""The schema in the JSON. The version grows when a field is removed or changes its meaning, not for new fields."""


def batch_title(result: BatchResult) -> str:
    """The number of jobs of each status, and the time of all of them."""
    counts = ", ".join(f"{number} {status}" for status, number in status_counts(result).items()) or "none"
    time = f" in {result.seconds:.1f} s" if result.seconds else ""
    return f"{counted(len(result.jobs), 'jobs')}{time}: {counts}"


def batch_sections(result: BatchResult) -> Sections:
    """The jobs that failed with their errors, then all jobs with their figures."""
    failed = [(job.path, job.status, job.error) for job in result.failed]
    rows = [_row(job) for job in result.jobs]
    head = ("path", "status", "seconds", "memory", "files", "starts")
    return [("failed", failed), ("jobs", with_heads(head, rows) if rows else [])]


def batch_content(result: BatchResult, *, is_dry_run: bool) -> dict[str, Any]:
    """A result as JSON has it."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "dry_run": is_dry_run,
        "seconds": result.seconds,
        "counts": status_counts(result),
        "jobs": [asdict(job) for job in result.jobs],
    }


def status_counts(result: BatchResult) -> dict[str, int]:
    """The number of jobs of each status that occurs."""
    statuses = [job.status for job in result.jobs]
    return {status: statuses.count(status) for status in get_args(Status) if status in statuses}


def _row(job: JobResult) -> tuple[str, ...]:
    sizes = [file_size(size).partition(",")[0] if size else "" for size in (job.memory_bytes, job.file_bytes)]
    seconds = f"{job.seconds:.1f} s" if job.seconds else ""
    return (job.path, job.status, seconds, *sizes, str(job.attempts) if job.attempts > 1 else "")
