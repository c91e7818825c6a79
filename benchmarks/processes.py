"""One command as a whole process: seconds, the most memory it held, and what it said.

Memory is summed over the process and its children and read every hundredth of a second. Resident memory counts mapped
files that the system may drop at any time, weights above all; anonymous memory is what must be there.
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

EVERY = 0.01
FIELDS = re.compile(r"^(VmHWM|VmRSS|RssAnon):\s+(\d+) kB$", re.MULTILINE)
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""No process looks for a hub that is not there."""


@frozen
class Process:
    """What a process took: seconds by the clock and of both cores' work, and bytes at their most."""

    seconds: float
    work: float
    resident: int
    anonymous: int
    code: int
    said: str

    @property
    def last_words(self) -> str:
        """The line that says why it failed, as near as one can tell."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        telling = [line for line in lines if re.search(r"error|exception|no such option", line, re.IGNORECASE)]
        return (telling or lines or [f"exit code {self.code}"])[-1].strip("│ ")[:200]


def ran(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Process:
    """A command run to its end, with what it said on both streams."""
    told = {**os.environ, **QUIET, **(environment or {})}
    with tempfile.TemporaryFile("w+") as words:
        start, before = time.perf_counter(), _work()
        running = subprocess.Popen([str(word) for word in command], stdout=words, stderr=words, env=told)
        resident = anonymous = 0
        while running.poll() is None:
            found = [_memory(each) for each in _family(running.pid)]
            resident = max(resident, sum(one.get("VmRSS", 0) for one in found), *(one.get("VmHWM", 0) for one in found))
            anonymous = max(anonymous, sum(one.get("RssAnon", 0) for one in found))
            time.sleep(EVERY)
        seconds = time.perf_counter() - start
        words.seek(0)
        return Process(seconds, _work() - before, resident, anonymous, running.returncode, words.read())


def _work() -> float:
    """Seconds that processors have spent on processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _family(process: int) -> list[int]:
    """A process and all that it started, as far as they still run."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        born = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return [process]
    return [process, *(member for child in born for member in _family(child))]


def _memory(process: int) -> dict[str, int]:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return {}
    return {name: int(kilobytes) * 1024 for name, kilobytes in FIELDS.findall(status)}
