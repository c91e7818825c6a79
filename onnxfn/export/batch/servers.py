"""Runs jobs within their limits, by server processes on this machine or by an executor."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import count
from multiprocessing import Pipe
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, Any

from attrs import evolve, frozen

from onnxfn.export.batch.memory import stated_bytes
from onnxfn.export.batch.records import JobLimits, JobResult
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.specs.results.printing import file_size

PERIOD = 0.05
"""Seconds between two looks at the memory of a job."""

Submit = Callable[[ExportRequest, JobLimits], "Future[JobResult]"]
"""Starts a job, and returns the future of its result."""


@frozen(eq=False)
class Server:
    """A process that runs one job after the other, each in a copy of itself, and the file of its own error stream."""

    process: subprocess.Popen[bytes]
    connection: Any
    errors: IO[bytes]

    def close(self) -> None:
        """Ends the server, and with it the process of its job."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.errors.close()


@contextmanager
def local_processes(workers: int) -> Iterator[Submit]:
    """A function that starts jobs on this machine, `workers` at a time; each server runs one job after the other."""
    servers: list[Server] = []
    idle: list[Server] = []

    def run(job: ExportRequest, limits: JobLimits) -> JobResult:
        server = idle.pop() if idle else None
        if server is None or server.process.poll() is not None:
            server = _started_server()
            servers.append(server)
        result = _answer(server, job, limits)
        idle.append(server)
        return result

    threads = ThreadPoolExecutor(workers, thread_name_prefix="onnxfn-batch")
    try:
        yield lambda job, limits: threads.submit(run, job, limits)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for server in servers:
            server.close()


def executor_processes(executor: Executor) -> Submit:
    """A function that starts jobs by an executor."""
    calls = count()  # dask takes the result of an equal call that it knows
    return lambda job, limits: executor.submit(run_job, job, limits, next(calls))


def run_job(job: ExportRequest, limits: JobLimits, _call: int = 0) -> JobResult:
    """Runs a job by a server of its own: what an executor calls."""
    with closing(_started_server()) as server:
        return _answer(server, job, limits)


def _started_server() -> Server:
    """A new server with the import paths of this process. The output of its exports is dropped."""
    ours, theirs = Pipe()
    errors = TemporaryFile()  # noqa: SIM115 - it is closed with the record
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this
            [sys.executable, "-m", "onnxfn.export.batch.server", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
        )
    return Server(process, ours, errors)


def _answer(server: Server, job: ExportRequest, limits: JobLimits) -> JobResult:
    """The result of a job that is sent to a server. The server ends if the job uses more than its limits."""
    try:
        return _watched(server, job, limits)
    except (OSError, EOFError):
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(5)  # seconds, in which a server ends whose connection has ended
        server.errors.seek(0)
        lines = server.errors.read().decode("utf-8", errors="replace").strip()
        code = server.process.poll() or 0
        server.close()
        if code > 0:  # that of a signal is negative
            reason = lines.rpartition("\n")[2]  # the last line of a traceback is the error itself
            words = f"the process that runs the exports ended by itself: {reason}"
            return JobResult(job.checkpoint, job.path, "failed", error=words)
        return JobResult(job.checkpoint, job.path, "lost", error="the process that runs the exports was killed")


def _watched(server: Server, job: ExportRequest, limits: JobLimits) -> JobResult:
    """The result of a job, with its time and its memory. OSError or EOFError if the server is killed."""
    server.connection.send(job)
    message = process = server.connection.recv()
    result = JobResult(job.checkpoint, job.path, "lost", error="the process of the export was killed")
    start, peak = perf_counter(), 0
    while message is not None:
        peak = max(peak, stated_bytes(f"/proc/{process}/status", "RssAnon") or 0)
        over = _over_limits(job, limits, perf_counter() - start, peak)
        if over is not None:
            server.close()
            result = over
            break
        if server.connection.poll(PERIOD):
            message = server.connection.recv()
            result = message or result
    return evolve(result, seconds=perf_counter() - start, memory_bytes=peak)


def _over_limits(job: ExportRequest, limits: JobLimits, seconds: float, memory_bytes: int) -> JobResult | None:
    """The result of a job that uses more than its limits; None for any other."""
    if limits.seconds is not None and seconds > limits.seconds:
        reason = f"the export took longer than {limits.seconds:g} s; pass more seconds in its limits"
        return JobResult(job.checkpoint, job.path, "timed out", error=reason)
    if limits.memory_bytes is not None and memory_bytes > limits.memory_bytes:
        reason = f"the export used more than {file_size(limits.memory_bytes)}, of memory; pass more in its limits"
        return JobResult(job.checkpoint, job.path, "out of memory", error=reason)
    return None
