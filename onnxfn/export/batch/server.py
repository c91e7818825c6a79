"""`python -m onnxfn.export.batch.server`: runs each job that a connection brings in a copy of this process."""

import ctypes
import os
import signal
import sys
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from onnxfn.export.batch.records import JobResult
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.diffusers import export_pipeline_request
from onnxfn.export.run.requests import export_request
from onnxfn.specs.errors import error_line

IMPORTED = ("onnx", "onnx_ir", "torch", "transformers.modeling_utils", "onnxruntime", "onnxscript", "torch.onnx")
"""Modules that each job imports. They start no threads, so a process that has them can be copied."""


def serve(connection: Connection) -> None:
    """Runs jobs; for each it sends the process, the result if the process was not killed, and None at its end."""
    end_with_parent()
    for module in IMPORTED:
        import_module(module)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        process = os.fork()
        if process == 0:  # in a copy of this server
            try:
                end_with_parent()
                os.dup2(1, 2)  # its errors go where its output goes
                connection.send(os.getpid())
                connection.send(job_result(job))
            finally:
                os._exit(0)  # not the end of the program that this process is a copy of
        os.waitpid(process, 0)
        connection.send(None)


def job_result(job: ExportRequest) -> JobResult:
    """Exports a job: its result, which also says why it failed."""
    try:
        parts = tuple(export_pipeline_request(job).values()) if job.library == "diffusers" else (export_request(job),)
    except Exception as error:  # noqa: BLE001 - whatever fails, the other jobs go on
        return JobResult(job.checkpoint, job.path, "failed", error=error_line(error))
    size = sum(Path(file).stat().st_size for part in parts for file in part.files)
    return JobResult(job.checkpoint, job.path, "exported", file_bytes=size, task=parts[0].plan.task or "")


def end_with_parent() -> None:
    """Has Linux end this process when the one that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: the signal for the death of the parent


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
