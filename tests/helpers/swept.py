"""What sweeps saw, `tests/sweeps/<family>.json`, as {model type: {task: what was seen}}; and README's table of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

SWEEPS = Path(__file__).parents[1] / "sweeps"
README = Path(__file__).parents[2] / "README.md"
FAMILIES: Mapping[str, str] = {
    "text": "text encoders",
    "decoders": "decoders",
    "seq2seq": "encoder-decoders",
    "vision": "models that see",
    "detection": "models that find things in images",
    "multimodal": "models that read and see",
    "audio": "models that hear and speak",
    "series": "models of time series and decisions",
    "libraries": "models of timm, sentence-transformers and diffusers",
    "derived": "no row: derived from the model",
}
NOT = "not: "
"""How a line starts of a task that was attempted and is not validated; the reason follows."""
MARKS = ("<!-- coverage: written by the sweep -->", "<!-- end of coverage -->")

Seen = dict[str, dict[str, str]]


def seen(family: str) -> Seen:
    """What the repository holds of a family's sweeps."""
    path = SWEEPS / f"{family}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def pairs(family: str) -> set[tuple[str, str]]:
    """The model types and tasks that have a line."""
    return {(model_type, task) for model_type, tasks in seen(family).items() for task in tasks}


def record(family: str, model_type: str, task: str, line: str, table: set[tuple[str, str]]) -> None:
    """One more line, on disk at once; those of rows that are no longer in the table go."""
    told = seen(family)
    told.setdefault(model_type, {})[task] = line
    kept = {name: {one: text for one, text in tasks.items() if (name, one) in table} for name, tasks in told.items()}
    whole = json.dumps({name: tasks for name, tasks in kept.items() if tasks}, indent=1, sort_keys=True)
    (SWEEPS / f"{family}.json").write_text(whole + "\n")


def line(result, *more: str) -> str:
    """What a checked export tells: how far it was from PyTorch, what it is limited to."""
    worst = max(one.max_abs for one in result.report.differences)
    return ", ".join([f"max abs diff {worst:.0e}", *more, *map(str, result.limits)])


def validated(tasks: Mapping[str, str]) -> tuple[str, ...]:
    """The tasks that export and agree with PyTorch."""
    return tuple(task for task, told in tasks.items() if not told.startswith(NOT))


def coverage() -> str:
    """README's section: how much of each family, then every model type and task."""
    told = {family: seen(family) for family in FAMILIES}
    lines = ["| family | model types | model type and task | attempted, not validated | results |", "| --- " * 5 + "|"]
    for family, rows in told.items():
        good = {name: validated(tasks) for name, tasks in rows.items()}
        count, bad = sum(map(len, good.values())), sum(map(len, rows.values()))
        types = sum(map(bool, good.values()))
        lines.append(f"| {FAMILIES[family]} | {types} | {count} | {bad - count} | `tests/sweeps/{family}.json` |")
    types = {name for rows in told.values() for name, tasks in rows.items() if validated(tasks)}
    lines += [
        "",
        f"Together {len(types)} model types. A derived spec takes the inputs that are known: of a model that reads and",
        "sees, that may be its text alone. What each took is in `tests/sweeps/derived.json`.",
        "",
        "<details><summary>Every model type and task</summary>",
        "",
    ]
    lines += ["| model type | validated | attempted, and why not |", "| --- | --- | --- |"]
    lines += [_row(name, tasks) for name, tasks in sorted(_by_type(told).items())]
    return "\n".join([*lines, "", "</details>"])


def write() -> None:
    """README's section, as the sweeps are now."""
    README.write_text(
        re.sub(f"(?s){MARKS[0]}.*{MARKS[1]}", lambda _: f"{MARKS[0]}\n\n{coverage()}\n\n{MARKS[1]}", README.read_text())
    )


def _by_type(told: Mapping[str, Seen]) -> Seen:
    made: Seen = {}
    for rows in told.values():
        for name, tasks in rows.items():
            made.setdefault(name, {}).update(tasks)
    return made


def _row(name: str, tasks: Mapping[str, str]) -> str:
    why = "; ".join(f"{task}: {text.removeprefix(NOT)}" for task, text in tasks.items() if text.startswith(NOT))
    return f"| {name} | {', '.join(sorted(validated(tasks)))} | {why.replace('|', '/')} |"
