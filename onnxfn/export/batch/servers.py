"""Starts the processes that run jobs, on this machine or by an executor, and sends them jobs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any

from onnxfn.export.batch.records import JobLimits, JobResult
from onnxfn.export.jobs.jobs import ExportJob

SERVER = "onnxfn.export.batch.server"
END_SECONDS = 5.0
"""How long a server has to end after its input has ended."""

BROKEN = (OSError, EOFError, pickle.UnpicklingError)
"""What reading from a server that was killed raises, or writing to it."""

RunJob = Callable[[ExportJob, JobLimits], JobResult]
"""Runs a job within its limits, and waits for its result."""

Submit = Callable[[ExportJob, JobLimits], "Future[JobResult]"]
"""Starts a job, and returns the future of its result."""


@contextmanager
def job_server() -> Iterator[RunJob]:
    """A function that runs jobs, one after the other, in copies of a server process that ends with the context."""
    servers: list[Any] = []
    try:
        yield partial(_run_by_server, servers)
    finally:
        for server in servers:
            _end(server)


def _run_by_server(servers: list[Any], job: ExportJob, limits: JobLimits) -> JobResult:
    """Runs a job by the server in a list of at most one, which is filled with the first job.

    If the server was killed meanwhile, the result of the job is `lost`, and the next job starts another server.
    """
    if servers and servers[0].poll() is not None:  # it was killed between two jobs
        _end(servers.pop())
    if not servers:
        servers.append(_started_server())
    try:
        return _answer(servers[0], job, limits)
    except BROKEN:
        _end(servers.pop())
        return JobResult(job.checkpoint, job.path, "lost", error="the process that runs the exports was killed")


@contextmanager
def local_processes(workers: int) -> Iterator[Submit]:
    """A function that starts jobs on this machine, so many at a time; each server runs one job after the other."""
    idle: SimpleQueue[RunJob] = SimpleQueue()

    def run(job: ExportJob, limits: JobLimits) -> JobResult:
        server = idle.get()
        try:
            return server(job, limits)
        finally:
            idle.put(server)

    def submit(job: ExportJob, limits: JobLimits) -> Future[JobResult]:
        return threads.submit(run, job, limits)

    with ExitStack() as stack:
        for _ in range(workers):
            idle.put(stack.enter_context(job_server()))
        threads = ThreadPoolExecutor(workers, thread_name_prefix="onnxfn-batch")
        try:
            yield submit
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


@contextmanager
def executor_processes(executor: Executor) -> Iterator[Submit]:
    """A function that starts jobs by an executor; the futures that have not started are cancelled at the end.

    A future that has its result is not kept: if the worker that ran its job is killed, dask would run it again.
    """
    pending: set[Future[JobResult]] = set()
    calls = count()

    def submit(job: ExportJob, limits: JobLimits) -> Future[JobResult]:
        future = executor.submit(run_job, job, limits, next(calls))
        pending.add(future)
        future.add_done_callback(pending.discard)
        return future

    try:
        yield submit
    finally:
        for future in [*pending]:
            future.cancel()


def run_job(job: ExportJob, limits: JobLimits, _call: int = 0) -> JobResult:
    """Runs a job by a server of its own: what an executor calls.

    Each call has another number, because dask takes the result of an equal call that it knows.
    """
    with job_server() as run:
        return run(job, limits)


def _started_server() -> Any:
    """A server that imports what this process can import. What its exports print is dropped."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-m", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _answer(server: Any, job: ExportJob, limits: JobLimits) -> JobResult:
    """The result of a job that is sent to a server. It raises one of `BROKEN` if the server was killed."""
    pickle.dump((job, limits), server.stdin)
    server.stdin.flush()
    result: JobResult = pickle.load(server.stdout)  # noqa: S301 - written by a process that this one started
    return result


def _end(server: Any) -> None:
    """Ends a server: it ends itself, and the process of its job, when its input ends."""
    with suppress(OSError):
        server.stdin.close()
    try:
        server.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    server.stdout.close()  # last: a thread that reads from it has the answer now, or an error
