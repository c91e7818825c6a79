"""Results of sweeps: `tests/sweeps/NAME.json` holds {"runs", "results", "seen", "seconds"}.

The results of a family are {model type: {task: line}}; those of `decoding` are {model type: line}. The runs are a list
of {"date", "commit", "versions"}. `seen` has the shape of the results, and for each line the number of its run in that
list; lines with the same number are one number: {model type: 0}, or 0 for the whole file. The seconds of a family are
{model type: {task: seconds of the processor}}; other sweeps have none. Lines are recorded from a clean tree alone, so
that the code that gave a line is the code of its commit.
"""

import datetime as dt
import fcntl
import gc
import json
import subprocess
import tempfile
import time
from collections import Counter
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
NOT = "not: "
"""The start of a line for a task that was attempted and is not validated; the reason follows."""

TABLES = ("results", "seen", "seconds")
"""What a file holds besides its runs."""

RESULTS = ("tests/sweeps", "tests/clients/results.json")
"""What recording itself changes."""

Results = dict[str, Any]
FamilyResults = dict[str, dict[str, str]]


# Reading


def recorded(name: str) -> Results:
    """The file of a sweep: its runs, and the tables of its lines."""
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


def run_of(name: str, *where: str) -> Results:
    """The run that gave a line: its date, commit and versions. `where` is a model type, or a model type and a task."""
    file = recorded(name)
    number, results = file.get("seen"), file["results"]
    for step in where:
        if step not in results:
            return {"date": "", "commit": "", "versions": {}}
        results = results[step]
        number = number[step] if isinstance(number, dict) else number
    return file["runs"][number]


def runs_text(name: str) -> str:
    """The runs that gave the lines of a sweep, in words: how many lines, the day, the commit, the versions."""
    file = recorded(name)
    counts = Counter(_leaves(_expanded(file["seen"], file["results"])))
    texts = (
        f"{counts[number]} on {run['date']}, commit {run['commit']} ({versions_text(run['versions'])})"
        for number, run in enumerate(file["runs"])
    )
    return "; ".join(texts)


def versions_text(versions: Mapping[str, str]) -> str:
    """Versions in words: `torch 2.13.0, transformers 5.24.0`."""
    return ", ".join(f"{package} {number}" for package, number in versions.items())


# Writing


def installed() -> dict[str, str]:
    """The versions of the packages that decide about a result."""
    return {package: version(package).partition("+")[0] for package in PACKAGES}


def is_current(name: str, *where: str) -> bool:
    """Whether a line was seen with the minor versions that are installed: 1.23.0 and 1.23.2, not 1.23 and 1.24."""
    first, second = (
        {name: text.split(".")[:2] for name, text in each.items()}
        for each in (run_of(name, *where)["versions"], installed())
    )
    return first == second


def update(name: str, change: Callable[[Results], Results], *lines: tuple[str, ...]) -> None:
    """Change the results of a sweep on disk; `lines` are those that were seen now, each by the keys that lead to it."""
    run = {"date": today(), "commit": commit(), "versions": installed()}
    with locked(name):
        before = recorded(name)
        results = dict(sorted(change(before["results"]).items()))
        runs = [*before.get("runs", []), run]
        seen = _kept(_expanded(before.get("seen", {}), before["results"]), results)
        for line in lines:
            seen = _with(seen, line, len(runs) - 1)
        _write(name, runs, {**before, "results": results, "seen": seen})


def _write(name: str, runs: list[Results], tables: Results) -> None:
    """Write the tables of a sweep, with the runs that a line names, each once."""
    named = {*_leaves(tables["seen"])}
    used = [run for number, run in enumerate(runs) if number in named]
    unique = [run for number, run in enumerate(used) if run not in used[:number]]
    numbers = {number: unique.index(run) for number, run in enumerate(runs) if run in unique}
    content = {"runs": unique, **{key: tables[key] for key in TABLES if key in tables}}
    content["seen"] = _joined(content["seen"], numbers)
    written = SWEEPS / f"{name}.new"
    written.write_text(json.dumps(content, indent=1) + "\n")
    written.replace(SWEEPS / f"{name}.json")  # at once: other processes read it


def _kept(tree: Any, like: Any) -> Any:
    """The part of a tree whose keys another tree has, too, in the order of that tree."""
    if not isinstance(tree, dict):
        return tree
    return {key: _kept(tree[key], like[key]) for key in like if key in tree} if isinstance(like, dict) else {}


def _with(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    """A tree with a value at a path, its keys in order."""
    if not path:
        return value
    inner = tree if isinstance(tree, dict) else {}
    return dict(sorted({**inner, path[0]: _with(inner.get(path[0]), path[1:], value)}.items()))


def _expanded(tree: Any, like: Any, depth: int = 2) -> Any:
    """A tree in which each line has its number, down to the task of a model type."""
    if not isinstance(like, dict) or not depth:
        return tree
    return {key: _expanded(tree[key] if isinstance(tree, dict) else tree, of, depth - 1) for key, of in like.items()}


def _joined(tree: Any, numbers: Mapping[int, int]) -> Any:
    """A tree with new numbers, in which a branch that has one number alone is that number."""
    if not isinstance(tree, dict):
        return numbers[tree]
    inner = {key: _joined(of, numbers) for key, of in tree.items()}
    first = next(iter(inner.values()), None)
    return first if isinstance(first, int) and all(of == first for of in inner.values()) else inner


def _leaves(tree: Any) -> Iterator[int]:
    """The numbers in a tree."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    else:
        yield tree


def record(
    family: str, model_type: str, task: str, line: str, table: set[tuple[str, str]], seconds: float | None = None
) -> None:
    """Add a line to the results of a family, and its seconds; those of pairs outside the table are dropped."""

    def with_value(value: Any, results: Results) -> Results:
        added = {**results, model_type: {**results.get(model_type, {}), task: value}}
        chosen = {
            name: {task: value for task, value in sorted(tasks.items()) if (name, task) in table}
            for name, tasks in added.items()
        }
        return {name: tasks for name, tasks in sorted(chosen.items()) if tasks}

    update(family, partial(with_value, line), (model_type, task))
    if seconds is not None:
        with locked(family):
            file = recorded(family)
            timed_pairs = with_value(round(seconds, 1), file.get("seconds", {}))
            _write(family, file["runs"], {**file, "seconds": timed_pairs})


def today() -> str:
    """The day in UTC: `2026-11-22`."""
    return dt.datetime.now(tz=dt.UTC).date().isoformat()


def timed(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Any, float]:
    """What a call returns, and the seconds of the processor that it takes, after a collection of earlier garbage."""
    gc.collect()
    start = time.process_time()
    return call(*arguments, **named), time.process_time() - start


def line(result: Any, *more: str) -> str:
    """The line of a checked export: its largest difference from PyTorch, and its limits."""
    worst = max(difference.max_abs for difference in result.report.differences)
    return ", ".join([f"max abs diff {worst:.0e}", *more, *map(str, result.limits)])


def commit() -> str:
    """The commit of the working tree. An error if anything but results has changes."""
    changed = git("status", "--porcelain", "--", ".", *(f":!{path}" for path in RESULTS))
    if changed:
        raise RuntimeError(f"lines are recorded from a clean tree; commit these first:\n{changed}")
    return git("rev-parse", "--short", "HEAD")


def default_seed() -> str:
    """The commit, changed or not; an empty text for a tree without git, such as a source archive."""
    try:
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return ""


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


def with_sweep(sample: Iterable[Any], more: Iterable[Any]) -> list[Any]:
    """The parameters of a test: those of the default run, and more that the sweep alone has."""
    import pytest

    left = (each if isinstance(each, tuple) else (each,) for each in more)
    return [*sample, *(pytest.param(*each, marks=pytest.mark.sweep) for each in left)]


def sampled(names: Iterable[str], count: int, seed: str) -> set[str]:
    """A sample of `count` names: those with the lowest hashes of seed and name."""
    return set(sorted(names, key=lambda name: sha256(f"{seed} {name}".encode()).digest())[:count])
