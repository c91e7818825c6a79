"""Results of sweeps: `tests/sweeps/NAME.json` holds {"versions", "date", "commit", "results"}.

The results of a family are {model type: {task: line}}; those of `decoding` are {model type: line}. `date` and `commit`
are those of the last line that was recorded; all lines were seen with the same minor versions.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
NOT = "not: "
"""The start of a line for a task that was attempted and is not validated; the reason follows."""

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


def update(name: str, change: Callable[[Results], Results]) -> None:
    """Change the results of a sweep on disk. Results that were seen with another minor version are dropped first."""
    with locked(name):
        before = recorded(name)
        kept_results = before["results"] if same_minor(before.get("versions", {}), installed()) else {}
        header = {"versions": installed(), "date": dt.datetime.now(tz=dt.UTC).date().isoformat()}
        content = {**header, "commit": commit(), "results": dict(sorted(change(kept_results).items()))}
        (SWEEPS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def record(family: str, model_type: str, task: str, line: str, table: set[tuple[str, str]]) -> None:
    """Add a line to the results of a family; lines of pairs that are not in the table are dropped."""

    def change(results: FamilyResults) -> FamilyResults:
        added = {**results, model_type: {**results.get(model_type, {}), task: line}}
        chosen = {
            name: {task: line for task, line in sorted(tasks.items()) if (name, task) in table}
            for name, tasks in added.items()
        }
        return {name: tasks for name, tasks in chosen.items() if tasks}

    update(family, change)


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
