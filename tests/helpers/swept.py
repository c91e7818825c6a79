"""Results of sweeps: `tests/sweeps/NAME.json` holds {"versions", "date", "commit", "results", "seconds", "dates"}.

The results of a family are {model type: {task: line}}; those of `decoding` are {model type: line}. The seconds of a
family are {model type: {task: seconds of the processor}}; other sweeps have none. `date` and `commit` are those of the
last line that was recorded; all lines were seen with the same minor versions. The dates are {model type: {task: the
day of the line}}; a line from before 2026-11-22 has none.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import gc
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SWEEPS = ROOT / "tests" / "sweeps"
PACKAGES = ("torch", "transformers", "onnx", "onnxruntime")
FAMILIES: Mapping[str, str] = {
    "text": "text encoders",
    "decoders": "decoders",
    "seq2seq": "encoder-decoders",
    "vision": "vision",
    "detection": "detection, segmentation, depth",
    "multimodal": "text and images or sound",
    "audio": "audio",
    "series": "time series and decisions",
    "libraries": "timm, sentence-transformers, diffusers",
    "derived": "no row: the spec is derived from the model",
}
LONGEST = 10.0
"""The most seconds of the processor that an export of a tiny model takes, with its check, in a warm process."""

NOT = "not: "
"""The start of a line for a task that was attempted and is not validated; the reason follows."""

TABLES = ("results", "seconds", "dates")
"""What a file holds besides its header."""

Results = dict[str, Any]
FamilyResults = dict[str, dict[str, str]]


# Reading


def recorded(name: str) -> Results:
    """The file of a sweep: its versions, date, commit and results."""
    path = SWEEPS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"results": {}}


def seen(family: str) -> FamilyResults:
    """The recorded results of a family, {model type: {task: line}}."""
    return recorded(family)["results"]


def pairs(family: str) -> set[tuple[str, str]]:
    """The model types and tasks that have a line."""
    return {(model_type, task) for model_type, tasks in seen(family).items() for task in tasks}


def validated(tasks: Mapping[str, str]) -> tuple[str, ...]:
    """The tasks whose export agrees with PyTorch."""
    return tuple(task for task, line in tasks.items() if not line.startswith(NOT))


# Writing


def installed() -> dict[str, str]:
    """The versions of the packages that decide about a result."""
    return {package: version(package).partition("+")[0] for package in PACKAGES}


def same_minor(versions: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether two sets of versions differ in their last number at most: 1.23.0 and 1.23.2, not 1.23 and 1.24."""
    first, second = ({name: text.split(".")[:2] for name, text in each.items()} for each in (versions, others))
    return first == second


def update(name: str, change: Callable[[Results], Results], key: str = "results") -> None:
    """Change a table of a sweep on disk. What was recorded with another minor version is dropped first."""
    with locked(name):
        before = recorded(name)
        is_current = same_minor(before.get("versions", {}), installed())
        tables = {"results": {}, **({name: before[name] for name in TABLES if name in before} if is_current else {})}
        tables[key] = dict(sorted(change(tables.get(key, {})).items()))
        header = {"versions": installed(), "date": today()}
        content = {**header, "commit": commit(), **tables}
        (SWEEPS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def record(
    family: str, model_type: str, task: str, line: str, table: set[tuple[str, str]], seconds: float | None = None
) -> None:
    """Add a line to the results of a family, its day and seconds; those of pairs outside the table are dropped."""

    def with_value(value: Any, results: Results) -> Results:
        added = {**results, model_type: {**results.get(model_type, {}), task: value}}
        chosen = {
            name: {task: value for task, value in sorted(tasks.items()) if (name, task) in table}
            for name, tasks in added.items()
        }
        return {name: tasks for name, tasks in chosen.items() if tasks}

    update(family, partial(with_value, line))
    update(family, partial(with_value, today()), "dates")
    if seconds is not None:
        update(family, partial(with_value, round(seconds, 1)), "seconds")


def today() -> str:
    """The day in UTC: `2026-11-22`."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def timed(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, float]:
    """What a call returns, and the seconds of the processor that it takes: other processes change them little.

    What earlier exports left in memory is collected before: else that would count, too.
    """
    gc.collect()
    start = time.process_time()
    return call(*arguments, **named), time.process_time() - start


def line(result: Any, *more: str) -> str:
    """The line of a checked export: its largest difference from PyTorch, and its limits."""
    worst = max(difference.max_abs for difference in result.report.differences)
    return ", ".join([f"max abs diff {worst:.0e}", *more, *map(str, result.limits)])


def commit() -> str:
    """The commit of the working tree, and whether its package has changes."""
    head = git("rev-parse", "--short", "HEAD")
    return head + (" with changes" if git("status", "--porcelain", "onnxfn") else "")


def git(*arguments: str) -> str:
    """The output of a git command in this repository."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout.strip()


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time: with `-n 2`, two processes record lines of one file."""
    with (Path(tempfile.gettempdir()) / f"onnxfn-sweep-{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Choosing


def sampled(names: Iterable[str], count: int, seed: str) -> set[str]:
    """A sample of `count` names: those with the lowest hashes of seed and name."""
    return set(sorted(names, key=lambda name: sha256(f"{seed} {name}".encode()).digest())[:count])
