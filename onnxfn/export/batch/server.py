"""`python -m onnxfn.export.batch.server`: reads jobs from its input, runs each in a process of its own, writes results.

It imports torch once. The processes of the jobs are copies of it, so none of them spends seconds on imports. It ends
when its input ends, and with it the process of a job.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from attrs import evolve

from onnxfn.export.batch.processes import Ended, run_in_process
from onnxfn.export.batch.records import JobLimits, JobResult
from onnxfn.export.jobs.error_lines import error_line
from onnxfn.export.jobs.jobs import ExportJob
from onnxfn.export.run.job_exports import export_job
from onnxfn.specs.results.printing import file_size

IMPORTED = ("onnx", "onnx_ir")
"""Modules that each job imports. They start no threads, so a process that has them can be copied."""

IMPORTED_FOR_CHECKS = ("torch", "transformers.modeling_utils", "onnxruntime", "onnxscript", "torch.onnx")
"""Modules that a job imports whose files are compared with PyTorch."""


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answers each pickled (job, limits) with a pickled JobResult, until the requests end."""
    while (request := _next_request(requests)) is not None:
        job, limits = request
        for module in (*IMPORTED, *(IMPORTED_FOR_CHECKS if job.check != "none" else ())):
            import_module(module)
        ended = run_in_process(partial(job_result, job), limits, partial(_is_open, requests))
        pickle.dump(finished_result(job, limits, ended), replies)
        replies.flush()


def job_result(job: ExportJob) -> JobResult:
    """Exports a job: its result, which also says why it failed."""
    try:
        exported = export_job(job)
    except Exception as error:  # noqa: BLE001 - whatever fails, the other jobs go on
        return JobResult(job.checkpoint, job.path, "failed", error=error_line(error))
    size = sum(Path(file).stat().st_size for file in exported.files)
    return JobResult(job.checkpoint, job.path, "exported", file_bytes=size, task=exported.plan.task or "")


def finished_result(job: ExportJob, limits: JobLimits, ended: Ended) -> JobResult:
    """The result of a job whose process ended."""
    if ended.ending == "returned":
        result: JobResult = ended.value
    else:
        result = JobResult(job.checkpoint, job.path, ended.ending, error=_reason(ended.ending, limits))
    return evolve(result, seconds=ended.seconds, memory_bytes=ended.memory_bytes)


def _reason(ending: str, limits: JobLimits) -> str:
    if ending == "timed out":
        return f"the export took longer than {limits.seconds:g} s; pass more seconds in its limits"
    if ending == "out of memory":
        size = file_size(limits.memory_bytes or 0)
        return f"the export used more than {size}, of memory; pass more in its limits"
    return "the process of the export was killed"


def _next_request(requests: BinaryIO) -> tuple[ExportJob, JobLimits] | None:
    """The next job and its limits; None at the end."""
    try:
        request: tuple[ExportJob, JobLimits] = pickle.load(requests)  # noqa: S301 - written by the program that started this one
    except EOFError:
        return None
    return request


def _is_open(requests: BinaryIO) -> bool:
    """Whether the program that sends requests still runs. It sends none before it has the answer to the last one."""
    return not select.select([requests], [], [], 0)[0]


def main() -> None:
    """Serves jobs on the standard input and output. What exports print goes to the error stream."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
