"""`export_many`: exports many checkpoints, each in a process of its own, and logs a line of JSON for each job."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import closing, nullcontext, suppress
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from attrs import asdict, evolve, fields_dict, frozen

from onnxfn.export.batch.memory import UNKNOWN_BYTES, checkpoint_weights, memory_need, stated_bytes
from onnxfn.export.batch.records import BatchEvent, BatchResult, JobLimits, JobResult, OnBatchEvent
from onnxfn.export.batch.servers import executor_processes, local_processes
from onnxfn.export.jobs.identity import job_digest
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.load.folders import checkpoint_folder
from onnxfn.export.load.quantized import is_gguf
from onnxfn.export.publish.staging import check_destination
from onnxfn.export.report.report_file import REPORT_FILE, recorded, report_folders
from onnxfn.export.run.events import ignore
from onnxfn.specs.errors import InvalidSpec, OnnxfnError, error_line, first_line


@frozen
class Task:
    """A job, the bytes it needs at most, its place, its attempt, and the digest of what its result depends on."""

    number: int
    job: ExportRequest
    bytes: int = 0
    digest: str = ""
    attempt: int = 1


Step = tuple[Task, JobResult | None]
"""A task that starts, without a result; or that ended, with it. The task of a result may not have started."""


def export_many(
    jobs: Iterable[ExportRequest],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    limits: JobLimits = JobLimits(),
    memory: int | None = None,
    retries: int = 1,
    log: str | os.PathLike[str] | None = None,
    on_event: OnBatchEvent = ignore,
) -> BatchResult:
    """Exports many checkpoints, each in a process of its own. A job that fails does not end the others.

    If the checkpoints of two jobs differ only in weight values, the later job takes its graphs from the template cache.

    Args:
        jobs: The exports. Each has its own path.
        executor: Where the jobs run: any executor of `concurrent.futures`, such as `Client.get_executor()` of
            dask.distributed. Checkpoints and paths must be the same on all of its machines, and each job imports torch.
            None: processes on this machine, which import it once.
        workers: The number of jobs that run at a time. None: the number of processors; with an executor, all jobs are
            submitted as soon as they may start.
        limits: The limits of each job. A job that exceeds them is stopped.
        memory: The limit in bytes for all running jobs together. The need of a job follows from the sizes of its
            weights and its check; pages of mapped weights count. A job that needs more runs alone, as does a name on
            the hub whose weights are not in its cache. None: what is available at the start; with an executor no limit.
        retries: How often a job is started again whose process was killed. Jobs that fail are not started again.
        log: A file with one line of JSON per ended job. A job that it lists as exported is skipped if the checkpoint,
            the job and the versions of packages are the same, and the files exist; otherwise its export is replaced.
            None: no log.
        on_event: Called with a `BatchEvent` when a job starts and ends. Its exceptions stop the running jobs.

    Returns:
        The result of each job, in the order of the jobs.

    Raises:
        InvalidSpec: Two different jobs have one path, or `workers` or `retries` is too small.

    >>> export_many([]).jobs
    ()
    """
    if workers is not None and workers < 1:
        raise InvalidSpec(f"workers is {workers}; pass 1 or more, or None for as many as there are processors")
    if retries < 0:
        raise InvalidSpec(f"retries is {retries}; pass 0 or more")
    file, start = None if log is None else Path(log), perf_counter()
    prepared = _prepared(jobs, file)
    ended = [(task, result) for task, result in prepared if result is not None]
    tasks = [task for task, result in prepared if result is None]
    workers = workers or (len(prepared) if executor else os.cpu_count()) or 1
    memory = memory or (None if executor else stated_bytes("/proc/meminfo", "MemAvailable"))
    processes = nullcontext(executor_processes(executor)) if executor else local_processes(workers)
    with processes as submit, closing(_run(tasks, lambda job: submit(job, limits), workers, memory, retries)) as steps:
        results = _announced(chain(ended, steps), len(prepared), start, file, on_event)
    return BatchResult(tuple(results[number] for number in range(len(prepared))), perf_counter() - start)


def _announced(
    steps: Iterable[Step], count: int, start: float, log: Path | None, on_event: OnBatchEvent
) -> dict[int, JobResult]:
    """The results of jobs, by their numbers. Each is written to the log as it comes, and each step is an event."""
    results: dict[int, JobResult] = {}
    run_count, running = 0, set[int]()
    for task, result in steps:
        status = "start" if task.attempt == 1 else "retry"
        running.add(task.number)
        if result is not None:
            status = result.status
            results[task.number] = result
            running.remove(task.number)
            run_count += result.status != "unchanged"
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(result)) + "\n")
        seconds = perf_counter() - start
        # Jobs that did not have to run say nothing about the time of the others; one that runs is half done.
        half = len(running) / 2
        remaining = seconds / (run_count + half) * (count - len(results) - half) if run_count else None
        on_event(BatchEvent(task.job.path, status, len(results), count, seconds, remaining))
    return results


def batch_preview(jobs: Iterable[ExportRequest], log: str | os.PathLike[str] | None = None) -> BatchResult:
    """A preview of `export_many`. Nothing is exported.

    Args:
        jobs: What would be exported.
        log: The log of earlier runs, whose exports would not be done again. None: there is no log.

    Returns:
        The result of each job that need not or cannot run. Any other job has the status `planned`, and the memory that
        it needs at most; 0 if that is not known.

    Raises:
        InvalidSpec: Two different jobs have one path.

    >>> batch_preview([]).jobs
    ()
    """
    return BatchResult(
        result or JobResult(task.job.checkpoint, task.job.path, "planned", memory_bytes=task.bytes % UNKNOWN_BYTES)
        for task, result in _prepared(jobs, None if log is None else Path(log))
    )


def _prepared(jobs: Iterable[ExportRequest], log: Path | None) -> list[Step]:
    """Each job as a task; and its result, if it need not or cannot run. InvalidSpec if two jobs have the same path."""
    jobs, logged, seen = tuple(jobs), logged_results(log), dict[str, ExportRequest]()
    for job in jobs:
        other = seen.setdefault(os.path.realpath(job.path), job)
        if other is not job:  # one would replace the files of the other
            both = f"{other.checkpoint} and {job.checkpoint}"
            raise InvalidSpec(f"{both} are to be exported to the same path {job.path}; give each job its own path")
    return [_prepared_job(number, job, logged.get(job.path)) for number, job in enumerate(jobs)]


def _prepared_job(number: int, job: ExportRequest, earlier: JobResult | None) -> Step:
    """A job as a task; and its result, if it has been exported before, or if its checkpoint cannot be read."""
    task = Task(number, job)
    try:
        is_file = is_gguf(job.checkpoint)
        source = Path(job.checkpoint) if is_file else checkpoint_folder(job.checkpoint, job.library, job.revision)
        digest = job_digest(job, source)
        if earlier is not None and is_unchanged(earlier, digest):
            return task, evolve(earlier, status="unchanged", seconds=0.0)
        is_earlier_export = earlier is not None and earlier.succeeded
        # Asked here, once: an attempt whose worker was killed may have left its files.
        check_destination(Path(job.path), overwrite=job.overwrite or is_earlier_export)
        need = memory_need(checkpoint_weights(job.checkpoint, source, job.library), job.check)
        return Task(number, evolve(job, overwrite=True), need, digest), None
    except Exception as error:  # noqa: BLE001 - whatever the files of a checkpoint say, the other jobs go on
        return task, JobResult(job.checkpoint, job.path, "failed", error=error_line(error))


def _run(
    tasks: list[Task],
    submit: Callable[[ExportRequest], Future[JobResult]],
    workers: int,
    memory: int | None,
    retries: int,
) -> Generator[Step, None, None]:
    """Runs tasks: a step for each start, and for each end with its result. At the end the rest is cancelled."""
    waiting = [*tasks]
    running: dict[Future[JobResult], Task] = {}
    ended: SimpleQueue[Future[JobResult]] = SimpleQueue()
    try:
        while waiting or running:
            while len(running) < workers and (task := next_task(waiting, running.values(), memory)):
                waiting.remove(task)
                try:
                    future = submit(task.job)
                except RuntimeError as error:  # a pool that is broken or shut down
                    future = Future()
                    future.set_exception(error)
                running[future] = task
                future.add_done_callback(ended.put)
                yield task, None
            future = ended.get()
            task = running.pop(future)
            result = _result(future, task)
            del future  # dask would run a job again whose result it has, and whose worker is killed
            if result.status == "lost" and task.attempt <= retries:
                waiting.insert(0, evolve(task, attempt=task.attempt + 1))
                continue
            yield task, result
    finally:
        for future in running:
            future.cancel()


def next_task(waiting: Sequence[Task], running: Collection[Task], memory: int | None) -> Task | None:
    """The first waiting task that fits into the memory next to the running ones; one that needs more runs alone."""
    used = sum(task.bytes for task in running)
    fitting = (task for task in waiting if memory is None or used + task.bytes <= memory)
    return next(fitting, None if running else next(iter(waiting), None))


def _result(future: Future[JobResult], task: Task) -> JobResult:
    """The result of a task; `lost` if the executor could not run it."""
    job = task.job
    try:
        result = future.result()
    except (Exception, CancelledError) as error:  # noqa: BLE001 - each executor has errors of its own
        result = JobResult(job.checkpoint, job.path, "lost", error=f"the executor failed: {first_line(error)}")
    return evolve(result, attempts=task.attempt, digest=task.digest)


def logged_results(file: Path | None) -> Mapping[str, JobResult]:
    """From the path of each export in a log to its last result; other lines are skipped."""
    if file is None or not file.is_file():
        return {}
    results: dict[str, JobResult] = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        # A run that was killed may have left half a line.
        with suppress(ValueError, TypeError, KeyError, RecursionError, OnnxfnError):
            values: Any = json.loads(line)
            result = JobResult(**{name: values[name] for name in fields_dict(JobResult) if name in values})
            results[result.path] = result
    return results


def is_unchanged(result: JobResult, digest: str) -> bool:
    """Whether a job of a digest has an earlier result, and its files are there with their sizes."""
    folders = report_folders(Path(result.path)) if result.succeeded and result.digest == digest else []
    reports = {folder: report for folder in folders if (report := recorded(folder)) is not None}
    sizes = {folder / name: facts.bytes for folder, report in reports.items() for name, facts in report.files.items()}
    if not reports or len(reports) < len(folders) or not all(file.is_file() for file in sizes):
        return False
    # The files are not read: `verify` does that.
    stated = sum(sizes.values()) + sum((folder / REPORT_FILE).stat().st_size for folder in folders)
    has_all = folders == [Path(result.path)] or stated == result.file_bytes  # no part of a pipeline is missing
    return has_all and all(file.stat().st_size == size for file, size in sizes.items())
