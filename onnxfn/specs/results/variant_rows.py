"""The check of an export of several dtypes as a table: one row for each file, however many outputs it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxfn.specs.results.measurements import AT_MOST, STATUS, Measurement, Rows, rounded, with_heads

LEAST_VARIANTS = 2


def has_variants(plan: Any) -> bool:
    """Whether the files of a plan are of several dtypes."""
    return len({part.dtype for part in plan.parts}) >= LEAST_VARIANTS


def is_first_variant(part: Any, plan: Any) -> bool:
    """Whether a part is of the first dtype of a plan; those of the others have the same inputs, outputs and axes."""
    return bool(part.dtype == plan.parts[0].dtype)


def variant_rows(report: Any, cell: Callable[[Sequence[Measurement]], str] | None = None) -> Rows:
    """A row for each file below the heads: the largest relative difference, and the worst value of each measure.

    `cell` writes the measurements of a measure: `worst_value`, or with the floor where it is left out.
    """
    parts = [each.part for each in (*report.differences, *report.measurements)]
    measures = tuple(dict.fromkeys(map(_column, report.measurements)))
    rows = [_row(report, part, measures, cell or _worst) for part in dict.fromkeys(parts)]
    return with_heads(("file", "status", "relative error", *measures), rows) if rows else ()


def _row(
    report: Any, part: str, measures: Sequence[str], cell: Callable[[Sequence[Measurement]], str]
) -> tuple[str, ...]:
    differences = [each for each in report.differences if each.part == part]
    measured = [each for each in report.measurements if each.part == part]
    passed = all(each.passed for each in (*differences, *measured))
    error = f"{max(each.max_rel for each in differences):.1e}" if differences else ""
    values = (cell([each for each in measured if _column(each) == name]) for name in measures)
    return (f"{part}.onnx", STATUS[passed], error, *values)


def _column(measurement: Measurement) -> str:
    """The measure of a measurement; greedy tokens have a column of their own, because they have no floor."""
    return measurement.output if measurement.floor is None else measurement.measure


def _worst(measurements: Sequence[Measurement]) -> str:
    """The worst value of a measure, and its floor; empty without values.

    >>> _worst([Measurement("model", "logits", "kl", 0.4177, 0.8, "300 tokens of text", True)])
    '0.4177 (at most 0.8)'
    """
    if not measurements:
        return ""
    worst = _worst_of(measurements)
    words = "at most" if worst.measure in AT_MOST else "at least"
    return worst_value(measurements) + ("" if worst.floor is None else f" ({words} {rounded(worst.floor)})")


def worst_value(measurements: Sequence[Measurement]) -> str:
    """The worst value of a measure; empty without values.

    >>> worst_value([Measurement("model", "logits", "kl", 0.4177, 0.8, "300 tokens of text", True)])
    '0.4177'
    """
    return rounded(_worst_of(measurements).value) if measurements else ""


def _worst_of(measurements: Sequence[Measurement]) -> Measurement:
    is_most = measurements[0].measure in AT_MOST
    return (max if is_most else min)(measurements, key=lambda each: each.value)
