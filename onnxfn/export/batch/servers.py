"""Starts the processes that run jobs, and sends them jobs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO

from onnxfn.export.batch.records import JobLimits, JobResult
from onnxfn.export.jobs import ExportJob

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
    if servers and servers[0].poll() is not None:  # it ended because no job came
        _end(servers.pop())
    if not servers:
        servers.append(started_server(subprocess.PIPE, subprocess.PIPE))
    try:
        return answer(servers[0].stdin, servers[0].stdout, job, limits)
    except BROKEN:
        _end(servers.pop())
        return lost_result(job)


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


def started_server(stdin: Any, stdout: Any) -> Any:
    """A server that imports what this process can import. What its exports print is dropped."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(  # noqa: S603 - the interpreter that runs this
        [sys.executable, "-m", SERVER], stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, env=environment
    )


def answer(requests: BinaryIO, replies: BinaryIO, job: ExportJob, limits: JobLimits) -> JobResult:
    """The result of a job that is sent to a server. It raises one of `BROKEN` if the server was killed."""
    pickle.dump((job, limits), requests)
    requests.flush()
    result: JobResult = pickle.load(replies)  # noqa: S301 - written by a process that this one started
    return result


def lost_result(job: ExportJob) -> JobResult:
    """The result of a job whose server was killed."""
    return JobResult(job.checkpoint, job.path, "lost", error="the process that runs the exports was killed")


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
