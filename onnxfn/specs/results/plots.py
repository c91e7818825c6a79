"""`Report.plot`: the error of each output in each case, as a multiple of what is allowed. It needs matplotlib."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.short_repr import grouped_row, layer_groups

SMALLEST = 1e-6
"""Smaller multiples of the allowed error are drawn as this one: the axis is logarithmic, and 0 has no logarithm."""

Points = dict[str, dict[str, float]]
"""From the name of an output to its points: from the name of a case to a multiple of the allowed error."""


def report_points(report: Any) -> Points:
    """The points of a plot. Outputs that differ in the layer alone are one row, with the largest of their values."""
    rows = [(f"{difference.part}: {difference.output}",) for difference in report.differences]
    return {
        grouped_row([rows[index] for index in group])[0]: _largest([report.differences[index] for index in group])
        for group in layer_groups(rows)
    }


def draw_report(report: Any, axes: Any = None) -> Any:
    """Draws the points of a report in axes of matplotlib, new ones if there are none; returns the axes.

    New axes are those of pyplot: a notebook shows them below the cell. OnnxfnError if matplotlib is not installed.
    """
    if axes is None:
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise OnnxfnError("plot needs matplotlib: pip install 'onnxfn[plot]'") from error
        _, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for name, points in report_points(report).items():
        axes.plot(list(points), list(points.values()), marker="o", linestyle="none", label=name)
    axes.axhline(1.0, color="black", linestyle="--", label="allowed")
    axes.set(yscale="log", ylabel="error / allowed error", title="ONNX Runtime against PyTorch")
    for label in axes.get_xticklabels():
        label.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _largest(differences: list[Any]) -> dict[str, float]:
    points: dict[str, float] = {}
    for difference in differences:
        for case, error, allowed in difference.errors:
            multiple = max(error / allowed if allowed else (float("inf") if error else 0.0), SMALLEST)
            name = case.partition(" (")[0]  # without its sizes
            points[name] = max(points.get(name, SMALLEST), multiple)
    return points
