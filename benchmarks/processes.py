"""Runs a command as a process and measures it: seconds, memory, output.

Memory is summed over the process and its children and read every 0.01 s. Resident memory includes mapped files, which
the system may drop at any time; most of these are weights. Anonymous memory is what the process must have.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

INTERVAL = 0.01
"""Seconds between two readings of the memory."""

FIELDS = re.compile(r"^(VmHWM|VmRSS|RssAnon):\s+(\d+) kB$", re.MULTILINE)

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "OLIVE_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment variables of every process: the benchmarks do not need a model hub."""


@frozen
class Process:
    """The measurements of a process that has ended.

    Attributes:
        seconds: Wall-clock time.
        cpu_seconds: Time of all processors, with the children's.
        resident: The largest resident memory, in bytes.
        anonymous: The largest anonymous memory, in bytes.
        code: The exit code.
        output: The text of stdout and stderr.
    """

    seconds: float
    cpu_seconds: float
    resident: int
    anonymous: int
    code: int
    output: str

    @property
    def error_line(self) -> str:
        """The last line of the output that mentions an error, else the last line."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"error|exception|no such option", line, re.IGNORECASE)]
        return (errors or lines or [f"exit code {self.code}"])[-1].strip("│ ")[:200]


def run_process(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Process:
    """Runs a command until it ends."""
    variables = {**os.environ, **OFFLINE, **(environment or {})}
    with tempfile.TemporaryFile("w+") as output:
        start, cpu_before = time.perf_counter(), _cpu_seconds()
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, env=variables)
        resident = anonymous = 0
        while process.poll() is None:
            readings = [_memory(member) for member in _family(process.pid)]
            peaks = [reading.get("VmHWM", 0) for reading in readings]
            resident = max(resident, sum(reading.get("VmRSS", 0) for reading in readings), *peaks)
            anonymous = max(anonymous, sum(reading.get("RssAnon", 0) for reading in readings))
            time.sleep(INTERVAL)
        seconds = time.perf_counter() - start
        output.seek(0)
        return Process(seconds, _cpu_seconds() - cpu_before, resident, anonymous, process.returncode, output.read())


def _cpu_seconds() -> float:
    """Processor seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _family(process: int) -> list[int]:
    """A process and all its descendants that still run."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return [process]
    return [process, *(member for child in children for member in _family(child))]


def _memory(process: int) -> dict[str, int]:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return {}
    return {name: int(kilobytes) * 1024 for name, kilobytes in FIELDS.findall(status)}
