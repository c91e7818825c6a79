"""Clients run as programs: jobs go in, results come out, both as JSON."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import MappingProxyType
from typing import Any

from client_environments import WITHOUT_NETWORK, command

DRIVERS = Path(__file__).parent / "drivers"
SECONDS = 300

PROGRAMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "transformers.js": ("transformers.js", "transformers_js.mjs"),
        "web": ("transformers.js", "by_chromium.py"),
        "webgpu": ("transformers.js", "by_chromium.py"),
        "genai": ("genai", "by_genai.py"),
        "optimum": ("optimum", "by_optimum.py"),
        "fastembed": ("fastembed", "by_fastembed.py"),
        "onnx": ("onnx", "by_onnx_reference.py"),
        "openvino": ("openvino", "by_openvino.py"),
    }
)
"""From a client to its environment and its driver."""


class ClientError(Exception):
    """A client gives an error for a job, or ends without a result."""


def run_client(client: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a client gives for a job: `{"result": ...}` and what else it says."""
    job_line, limits = json.dumps(job) + "\n", {"env": environment_of_client(), "timeout": SECONDS}
    done = subprocess.run(command_of(client), input=job_line, check=False, capture_output=True, text=True, **limits)
    lines = [line for line in done.stdout.splitlines() if line.startswith(('{"result"', '{"error"'))]
    if not lines:
        raise ClientError(f"{client} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    return answer_of(client, lines[-1])


@contextmanager
def client_process(client: str) -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """A function that is `run_client` of a client in one process for all jobs. After its end another one starts."""
    started: list[subprocess.Popen[str]] = []

    def answered(job: Mapping[str, Any]) -> dict[str, Any]:
        if not started or started[-1].poll() is not None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen(command_of(client), env=environment_of_client(), text=True, **pipes))
        return answer_of_process(client, started[-1], job)

    try:
        yield answered
    finally:
        for process in started:
            process.kill()
            process.wait()


def answer_of_process(client: str, process: subprocess.Popen[str], job: Mapping[str, Any]) -> dict[str, Any]:
    """What a process gives for a job. It is ended if it gives nothing in time."""
    timer = Timer(SECONDS, process.kill)
    timer.start()
    try:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    finally:
        timer.cancel()
    if not line:
        raise ClientError(f"{client} ended with {process.wait()}")
    return answer_of(client, line)


def answer_of(client: str, line: str) -> dict[str, Any]:
    answer = json.loads(line)
    if "error" in answer:
        raise ClientError(f"{client}: {answer['error']}")
    return answer


def command_of(client: str) -> list[str]:
    environment, driver = PROGRAMS[client]
    return command(environment, DRIVERS / driver)


def environment_of_client() -> dict[str, str]:
    return {**os.environ, **WITHOUT_NETWORK}
