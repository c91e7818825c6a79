"""Rows as a table: text for a terminal, HTML for a notebook. Knows no record."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from typing import Any

from onnxfn.specs.fixed_axes import graph_axes

Rows = Sequence[Sequence[str]]
Sections = Sequence[tuple[str, Rows]]


def text(title: str, sections: Sections) -> str:
    """Sections under a title, the columns of each section aligned.

    >>> print(text("bert", [("inputs", [("input_ids", "int64"), ("mask", "int64")])]))
    bert
      inputs
        input_ids  int64
        mask       int64
    """
    lines = [title]
    for heading, rows in sections:
        widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
        lines.append(f"  {heading}")
        lines.extend(f"    {_aligned(row, widths)}" for row in rows)
    return "\n".join(lines)


def html(title: str, sections: Sections) -> str:
    """The same sections as an HTML table."""
    columns = max((len(row) for _, rows in sections for row in rows), default=1)
    lines = [f"<table><caption>{escape(title)}</caption>"]
    for heading, rows in sections:
        lines.append(f'<tr><th colspan="{columns}" style="text-align:left">{escape(heading)}</th></tr>')
        lines.extend(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return "".join([*lines, "</table>"])


def spec_sections(spec: Any) -> Sections:
    """A spec as the rows of a table."""
    inputs = [
        (one.name, f"{_dtype(spec, one.kind)}{graph_axes(spec, one)}", _filled(spec, one), _where(one))
        for one in spec.inputs
    ]
    outputs = [(one.name, str(graph_axes(spec, one)), "", _where(one)) for one in spec.outputs]
    sections: list[tuple[str, Rows]] = [("derived from", [(spec.derived,)])] if spec.derived else []
    sections.append(("inputs", inputs))
    if outputs:
        sections.append(("outputs", outputs))
    if not spec.inputs and (files := _files(spec)):
        sections.append(("files", [(f"{one.name}.onnx", _made_by(one)) for one in files]))
    if spec.task is None and getattr(spec, "tasks", None):
        sections.append(("tasks", [(overlay.name,) for overlay in spec.tasks]))
    return sections


def report_sections(report: Any) -> Sections:
    """A report as the rows of a table."""
    head = ("output", "max abs diff", "max rel diff", "atol", "verdict", "worst at")
    rows = [
        (
            f"{one.part}: {one.output}",
            f"{one.max_abs:.1e}",
            f"{one.max_rel:.1e}",
            f"{one.tolerance:.1e}",
            "ok" if one.passed else "FAILED",
            one.worst_case,
        )
        for one in report.differences
    ]
    return [("ONNX Runtime against PyTorch", [head, *rows]), ("tried", [(case,) for case in report.cases])]


def exported_sections(exported: Any) -> Sections:
    """The result of an export as the rows of a table."""
    first = exported.plan.parts[0].spec
    sections: list[tuple[str, Rows]] = [("files", [(name,) for name in exported.files])]
    sections.extend(spec_sections(first))
    if exported.limits:
        sections.append(("limits of the model", [(str(limit),) for limit in exported.limits]))
    if exported.repeats:
        sections.append(("layers", [(told,) for told in exported.repeats]))
    if exported.fusions:
        rows = [(f"{part}.onnx", str(one)) for part, fusions in exported.fusions for one in fusions]
        sections.append(("operators that stand for many", rows))
    sections.append(("seconds", [(stage, f"{spent:.2f}") for stage, spent in exported.seconds]))
    if exported.report is not None:
        sections.extend(report_sections(exported.report))
    return sections


def title(spec: Any) -> str:
    """What a spec is, in one line."""
    said_of = [
        spec.name,
        spec.task,
        None if spec.target.opset is None else f"opset {spec.target.opset}",
        None if spec.check.atol is None else f"atol {spec.check.atol:g}",
        None if spec.check.rtol is None else f"rtol {spec.check.rtol:g}",
    ]
    return " · ".join(word for word in said_of if word) or "spec"


def check_status(report: Any) -> str:
    """Whether a check passed."""
    return f"check {'passed' if report.passed else 'FAILED'}"


def exported_title(exported: Any) -> str:
    """What an export is, in one line."""
    spec = exported.plan.parts[0].spec
    checked = "unchecked" if exported.report is None else check_status(exported.report)
    return " · ".join(word for word in (spec.name, exported.plan.task, f"opset {exported.opset}", checked) if word)


def _files(spec: Any) -> Any:
    """The files of a spec; a planned spec has none."""
    parts = getattr(spec, "parts", None)
    return () if parts is None else parts.files


def _made_by(file: Any) -> str:
    edits = (f"{one.function}({', '.join(f'{key}={value}' for key, value in one.arguments)})" for one in file.edits)
    stands = f"stands for {', '.join(file.replaces)}" if file.replaces else ""
    return " ".join(word for word in (*edits, stands) if word)


def _dtype(spec: Any, kind: str) -> str:
    chosen = {"int": spec.target.int_dtype, "float": spec.target.float_dtype, "bool": "bool"}[kind]
    return chosen or kind


def _filled(spec: Any, one: Any) -> str:
    return next((str(made) for made in spec.dummies.generators if made.name == one.generator), one.generator)


def _where(one: Any) -> str:
    moved = "" if one.path in ((), (one.name,)) else f"forward: {'.'.join(map(str, one.path))}"
    each = "" if getattr(one, "layers", None) is None else f"for each of {one.layers}"
    return " ".join(word for word in (moved, each, "" if one.when is None else f"when {one.when}") if word)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _cell(cell: str) -> str:
    return f'<td style="text-align:left">{escape(cell)}</td>'
