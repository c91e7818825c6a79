import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def printed(*words: Any, given: str | bytes = "", timeout: float | None = None, **variables: str) -> Any:
    """What a Python prints that imports what this one does; it reads `given`, and its environment has `variables`."""
    finished = subprocess.run(
        [sys.executable, *map(str, words)],
        input=given,
        capture_output=True,
        text=isinstance(given, str),
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def memory_growth(chunks: Iterable[Any]) -> list[int]:
    """The growth of the memory of this process, without pages of a file, at each of some chunks that are read."""
    before = _anonymous_memory()
    return [_anonymous_memory() - before + 0 * int(chunk[0]) for chunk in chunks]


def _anonymous_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) << 10
