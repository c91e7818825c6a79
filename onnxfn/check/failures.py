"""The error of a check that failed: its findings, and the worst case of each output that differs."""

from __future__ import annotations

from collections.abc import Sequence

from onnxfn.check.variants.proof import failed_measurements
from onnxfn.specs.errors import listed
from onnxfn.specs.short_repr import grouped_row, layer_groups
from onnxfn.specs.stored.reports import CheckFailed, Difference, Report

HOW_TO_BISECT = "to see in which module: export with check=False, then onnxfn.bisect(spec, model, path)"
"""The end of the message about outputs that differ."""

AMPLIFIED = (
    "PyTorch in the dtype of the export is as far away from float64: these weights amplify rounding, or the model "
    "casts to fewer bits, so the outputs do not decide whether the file is right; allow such a difference by "
    "with_tolerance(spec, atol=...), or export with check=False"
)
"""The end of the message about outputs that differ by no more than PyTorch's own error allows."""


def check_error(report: Report) -> CheckFailed:
    """The error for a report that did not pass: its findings, and the worst case of each output that differs."""
    failed = [each for each in report.differences if not each.passed]
    names = [(f"{each.part}: {each.output!r}",) for each in failed]
    differences = [
        _difference_text(grouped_row([names[index] for index in group])[0], [failed[index] for index in group])
        for group in layer_groups(names)
    ]
    hint = [AMPLIFIED if differs_by_rounding(report) else HOW_TO_BISECT] if differences and not report.sections else []
    measured = failed_measurements(report.measurements)
    lines = [*report.findings, *_failed_sections(report), *differences, *hint, *measured]
    return CheckFailed("; ".join(lines) or "nothing was checked", report)


def _difference_text(name: str, differences: Sequence[Difference]) -> str:
    """How far outputs that differ in the layer alone are off: the figures of the worst."""
    worst = max(differences, key=lambda each: (each.of_bound, each.max_abs))
    return (
        f"{name} is {worst.max_abs:.2e} away from PyTorch "
        f"at {worst.worst_case} (allowed are {worst.tolerance:.1e}{_own_error(worst)})"
    )


def differs_by_rounding(report: Report) -> bool:
    """Whether rounding explains all that is wrong in a report: a right graph would differ as much, see `Difference`."""
    failed = [difference for difference in report.differences if not difference.passed]
    explained = bool(failed) and all(difference.within_own_error for difference in failed)
    return explained and not report.findings and not failed_measurements(report.measurements)


def _failed_sections(report: Report) -> list[str]:
    """A line with the names of the sections that differ; if none does, that all errors together are too large."""
    failed = [each for each in report.sections if not each.passed]
    if not failed:
        return ["no section alone differs by more than is allowed"] if report.sections else []
    first = failed[0]
    allowed = "" if first.tolerance is None else f" (allowed are {first.tolerance:.1e})"
    names = listed([f"{each.part}: {each.section}" for each in failed])
    return [f"{names} differ: {first.output!r} of the first is {first.max_abs:.2e} away from PyTorch{allowed}"]


def _own_error(difference: Difference) -> str:
    return "" if difference.own_error is None else f"; the error of PyTorch itself is {difference.own_error:.1e}"
