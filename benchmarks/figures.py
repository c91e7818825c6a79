"""Medians, ratios pair by pair, tables, JSON, and whether what is required holds."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import frozen

RESULTS = Path(__file__).parent / "results"


@frozen
class Required:
    """A ratio, or another figure, that must not exceed a limit."""

    what: str
    found: float | None
    at_most: float

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not measured"
        return "holds" if self.found <= self.at_most else "does not hold"

    @property
    def plain(self) -> dict[str, Any]:
        return {"what": self.what, "found": self.found, "at most": self.at_most, "verdict": self.verdict}


def median(numbers: Sequence[float]) -> float | None:
    """The median, or None of nothing.

    >>> median([3.0, 1.0, 2.0]), median([])
    (2.0, None)
    """
    return statistics.median(numbers) if numbers else None


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The median of the ratios pair by pair: what both met in the same round cancels.

    >>> ratio([1.0, 2.0, 30.0], [2.0, 4.0, 60.0]), ratio([], [1.0])
    (0.5, None)
    """
    return median([here / there for here, there in zip(ours, theirs, strict=False)])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same or different keys as a Markdown table, a column a key; what is not there is left empty.

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
    """A figure for people.

    >>> shown(0.123), shown(12.3), shown(1234.5), shown(None), shown("x")
    ('0.12', '12.3', '1234', '', 'x')
    """
    if figure is None:
        return ""
    if not isinstance(figure, float):
        return str(figure)
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def verdicts(required: Sequence[Required]) -> str:
    """A line a requirement."""
    return "\n".join(
        f"{one.verdict}: {one.what} is {shown(one.found) or 'unknown'}, at most {one.at_most}" for one in required
    )


def published(
    name: str, rows: Sequence[Mapping[str, Any]], required: Sequence[Required], into: Path | None, *, runs: int
) -> None:
    """Print what was found, and keep it as JSON where a place is given, with how often and where it was measured."""
    print(table(rows))
    print(verdicts(required))
    if into is not None:
        into.parent.mkdir(parents=True, exist_ok=True)
        found = {"benchmark": name, "runs": runs, **where(), "rows": list(rows)}
        into.write_text(json.dumps({**found, "required": [one.plain for one in required]}, indent=1) + "\n")


def where() -> dict[str, Any]:
    """What the figures depend on beside the code: cores, and the versions of what is measured."""
    found = {name: version(name) for name in ("torch", "transformers", "onnx", "onnxruntime")}
    return {"cores": os.cpu_count(), "python": platform.python_version(), "versions": found}
