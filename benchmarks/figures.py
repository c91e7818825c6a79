"""Medians, ratios, requirements, and the tables and JSON files of results."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

RESULTS = Path(__file__).parent / "results"


@frozen
class Required:
    """A figure and the limit that it must not exceed. The figure is None if it was not measured."""

    what: str
    measured: float | None
    at_most: float

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        return "holds" if self.measured <= self.at_most else "does not hold"

    @property
    def plain(self) -> dict[str, Any]:
        """The requirement as JSON holds it."""
        return {"what": self.what, "measured": self.measured, "at most": self.at_most, "verdict": self.verdict}


def median(numbers: Sequence[float]) -> float | None:
    """The median; None if there are no numbers.

    >>> median([3.0, 1.0, 2.0]), median([])
    (2.0, None)
    """
    return statistics.median(numbers) if numbers else None


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of the ratios of pairs. A disturbance of one round slows both figures of a pair.

    >>> ratio([1.0, 2.0, 30.0], [2.0, 4.0, 60.0]), ratio([], [1.0])
    (0.5, None)
    """
    return median([own / other for own, other in zip(ours, theirs, strict=False)])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table with one column for each key of the rows. A cell is empty if the row lacks the key.

    >>> print(table([{"model": "bert", "seconds": 0.5}, {"model": "t5"}]))
    | model | seconds |
    | --- | --- |
    | bert | 0.50 |
    | t5 |  |
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([shown(row.get(key)) for key in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(figure: Any) -> str:
    """A figure as a table shows it.

    >>> shown(0.123), shown(12.3), shown(1234.5), shown(None), shown("x")
    ('0.12', '12.3', '1234', '', 'x')
    """
    if figure is None:
        return ""
    if not isinstance(figure, float):
        return str(figure)
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def verdicts(required: Sequence[Required]) -> str:
    """One line for each requirement."""
    return "\n".join(
        f"{requirement.verdict}: {requirement.what} is {shown(requirement.measured) or 'unknown'}, "
        f"at most {requirement.at_most}"
        for requirement in required
    )


def print_and_save(
    benchmark: str,
    rows: Sequence[Mapping[str, Any]],
    required: Sequence[Required],
    file: Path | None,
    *,
    runs: int,
    packages: Sequence[str] = (),
    peers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Prints the results and, if there is a file, saves them as JSON with the number of runs and the environment."""
    print(table(rows))
    print(verdicts(required))
    if file is not None:
        save(benchmark, rows, required, file, runs=runs, packages=packages, peers=peers)


def save(
    benchmark: str,
    rows: Sequence[Mapping[str, Any]],
    required: Sequence[Required],
    file: Path,
    *,
    runs: int,
    packages: Sequence[str] = (),
    peers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Saves the results as JSON with the date, the number of runs and the environment.

    `packages` are more packages of this environment, `peers` the versions of those in other environments.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    known = environment(packages)
    known["versions"] |= peers
    date = datetime.now(UTC).date().isoformat()
    result = {"benchmark": benchmark, "date": date, "runs": runs, **known, "rows": list(rows)}
    file.write_text(as_text({**result, "required": [requirement.plain for requirement in required]}))


def as_text(result: Mapping[str, Any]) -> str:
    """Results as JSON: a line for each row, and figures of four digits.

    >>> print(as_text({"benchmark": "x", "rows": [{"s": 0.123456, "problem": None}]}))
    {
     "benchmark": "x",
     "rows": [
      {"s": 0.1235, "problem": null}
     ]
    }
    <BLANKLINE>
    """
    parts = [
        "[\n" + ",\n".join(f"  {json.dumps(_rounded(each))}" for each in value) + "\n ]"
        if isinstance(value, list) and value
        else json.dumps(_rounded(value))
        for value in result.values()
    ]
    lines = (f" {json.dumps(key)}: {part}" for key, part in zip(result, parts, strict=True))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def environment(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The number of cores and the versions of the packages, on which the figures depend."""
    versions = {name: version(name) for name in ("torch", "transformers", "onnx", "onnxruntime", *packages)}
    return {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version(), "versions": versions}
