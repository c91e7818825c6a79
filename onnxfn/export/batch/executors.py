"""Runs jobs by an executor of other processes or machines.

An executor calls a function for each job, and nothing of a call is left for the next one. But the server that a call
starts has imported torch, and is to run the next job, too. So it listens at a socket in a folder of the batch. The
number of the thread is the name of the socket, by which the thread finds its server again.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from onnxfn.export.batch.records import JobLimits, JobResult
from onnxfn.export.batch.servers import BROKEN, Submit, answer, lost_result, started_server
from onnxfn.export.jobs import ExportJob


@contextmanager
def executor_processes(executor: Executor) -> Iterator[Submit]:
    """A function that starts jobs by an executor; the futures that have not started are cancelled at the end.

    A future that has its result is not kept: if the worker that ran its job is killed, dask would run it again.
    The servers on this machine end then, too; those on others end when their process ends, or when no job comes.
    """
    pending: set[Future[JobResult]] = set()
    batch, calls = f"onnxfn-{secrets.token_hex(8)}", count()

    def submit(job: ExportJob, limits: JobLimits) -> Future[JobResult]:
        future = executor.submit(run_job, job, limits, batch, next(calls))
        pending.add(future)
        future.add_done_callback(pending.discard)
        return future

    try:
        yield submit
    finally:
        for future in [*pending]:
            future.cancel()
        shutil.rmtree(_folder(batch), ignore_errors=True)


def run_job(job: ExportJob, limits: JobLimits, batch: str, _call: int = 0) -> JobResult:
    """Runs a job by the server of this thread: what an executor calls. The first job of a batch starts the server.

    Each call has another number, because dask takes the result of an equal call that it knows.
    """
    with _connection(_socket_file(batch)) as connection:
        try:
            with connection.makefile("wb") as requests, connection.makefile("rb") as replies:
                return answer(requests, replies, job, limits)
        except BROKEN:
            return lost_result(job)


def _folder(batch: str) -> Path:
    """The folder of the sockets of a batch on this machine."""
    return Path(tempfile.gettempdir(), batch)


def _socket_file(batch: str) -> str:
    """The socket of the server of this thread. PermissionError if the folder belongs to another user."""
    folder = _folder(batch)
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return str(folder / str(threading.get_native_id()))


def _connection(file: str) -> socket.socket:
    """A connection to the server that listens at a socket; if none does, one is started."""
    try:
        return _connected(file)
    except (FileNotFoundError, ConnectionRefusedError):
        _start_listening_server(file)
        return _connected(file)


def _connected(file: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(file)
    except OSError:
        connection.close()
        raise
    return connection


def _start_listening_server(file: str) -> None:
    """Starts a server that listens at a socket. It can be connected to at once: the system keeps what is sent."""
    Path(file).unlink(missing_ok=True)  # of a server that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(file)
        listener.listen(1)
        server = started_server(listener, subprocess.DEVNULL)
    # A thread waits for its end: a child process that ended and is not waited for stays in the table of processes.
    threading.Thread(target=server.wait, daemon=True).start()
