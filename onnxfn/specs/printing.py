"""Specs, plans, reports and results as tables: text for a terminal, HTML for a notebook.

`text` and `html` print any sections. The other functions take a record and return its sections or its title; they know
the fields of the records, and import none of them, because the records import this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from onnxfn.specs.fixed_axes import graph_axes
from onnxfn.specs.layer_groups import grouped_row, grouped_rows, layer_groups
from onnxfn.specs.short_repr import counted

Rows = Sequence[Sequence[str]]
Sections = Sequence[tuple[str, Rows]]

_STATUS: Mapping[bool, str] = MappingProxyType({True: "ok", False: "FAILED"})


def text(title: str, sections: Sections) -> str:
    """Sections below a title; the columns of each section are aligned.

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
    """The inputs, outputs, files and tasks of a spec; tensors that differ in the layer alone are one row."""
    inputs = [
        (tensor.name, f"{_dtype(spec, tensor.kind)}{graph_axes(spec, tensor)}", _dummy(spec, tensor), _details(tensor))
        for tensor in spec.inputs
    ]
    outputs = [(tensor.name, str(graph_axes(spec, tensor)), "", _details(tensor)) for tensor in spec.outputs]
    sections: list[tuple[str, Rows]] = [("derived from", [(spec.derived,)])] if spec.derived else []
    sections.append(("inputs", grouped_rows(inputs)))
    if outputs:
        sections.append(("outputs", grouped_rows(outputs)))
    if not spec.inputs and (files := _files(spec)):
        sections.append(("files", [(f"{file.name}.onnx", _file_summary(file)) for file in files]))
    if spec.task is None and getattr(spec, "tasks", None):
        sections.append(("tasks", [(overlay.name,) for overlay in spec.tasks]))
    return sections


def report_sections(report: Any) -> Sections:
    """What was found besides the values, the figures of each output, and the cases.

    Outputs that differ in the layer alone are one row, with the figures of the layer that has the largest relative
    difference. Layers that failed are not in a row with layers that passed.
    """
    head = ("output", "error", "relative", "allowed", "PyTorch's own", "status", "worst at")
    names = [(_output_name(difference), _STATUS[difference.passed]) for difference in report.differences]
    rows = [
        _figures(grouped_row([names[index] for index in group])[0], [report.differences[index] for index in group])
        for group in layer_groups(names)
    ]
    findings = [("findings", [(finding,) for finding in report.findings])] if report.findings else []
    cases = [(case,) for case in report.cases]
    references = _reference_rows(report.differences)
    compared = [("compared with", references)] if references else []
    return [*findings, ("ONNX Runtime against PyTorch", [head, *rows]), *compared, ("cases", cases)]


def _reference_rows(differences: Sequence[Any]) -> Rows:
    """What outputs were compared with, and the number of outputs for each."""
    counts = Counter(reference for difference in differences for reference in difference.references)
    return [(reference, f"{count} output{'s' if count > 1 else ''}") for reference, count in counts.items()]


def exported_sections(exported: Any) -> Sections:
    """The files, the first graph, what is known of the model, the time of each stage, and the report of an export."""
    sections: list[tuple[str, Rows]] = [("files", [(name,) for name in exported.files])]
    sections.extend(spec_sections(exported.plan.parts[0].spec))
    if exported.limits:
        sections.append(("limits of dynamic axes", [(str(limit),) for limit in exported.limits]))
    if exported.repeats:
        sections.append(("repeated layers", [(repeat,) for repeat in exported.repeats]))
    if exported.fusions:
        rows = [(f"{part}.onnx", str(fusion)) for part, fusions in exported.fusions for fusion in fusions]
        sections.append(("fused operators", rows))
    sections.append(("seconds", [(stage, f"{seconds:.2f}") for stage, seconds in exported.seconds]))
    if exported.report is not None:
        sections.extend(report_sections(exported.report))
    return sections


def title(spec: Any) -> str:
    """The name, the task, the opset and the tolerances of a spec, in one line."""
    words = [
        spec.name,
        spec.task,
        None if spec.target.opset is None else f"opset {spec.target.opset}",
        None if spec.check.atol is None else f"atol {spec.check.atol:g}",
        None if spec.check.rtol is None else f"rtol {spec.check.rtol:g}",
    ]
    return " · ".join(word for word in words if word) or "spec"


def check_status(report: Any) -> str:
    """Whether a check passed, as text."""
    return f"check {'passed' if report.passed else 'FAILED'}"


def report_words(report: Any) -> list[str]:
    """Whether a check passed, and the number of its outputs, cases and findings."""
    findings = [counted(len(report.findings), "findings")] if report.findings else []
    return [
        check_status(report),
        counted(len(report.differences), "outputs"),
        counted(len(report.cases), "cases"),
        *findings,
    ]


def exported_title(exported: Any) -> str:
    """The name, the task, the opset and the status of the check of an export, in one line."""
    return " · ".join(exported_words(exported)[:-1])


def exported_words(exported: Any) -> list[str]:
    """The name, the task, the opset, the status of the check, and the number of files of an export."""
    spec = exported.plan.parts[0].spec
    status = "unchecked" if exported.report is None else check_status(exported.report)
    words = (spec.name, exported.plan.task, f"opset {exported.opset}", status, counted(len(exported.files), "files"))
    return [word for word in words if word]


def _files(spec: Any) -> Any:
    """The files of a spec; a planned spec has none."""
    parts = getattr(spec, "parts", None)
    return () if parts is None else parts.files


def _file_summary(file: Any) -> str:
    edits = (
        f"{edit.function}({', '.join(f'{name}={value}' for name, value in edit.arguments)})" for edit in file.edits
    )
    replaces = f"replaces {', '.join(file.replaces)}" if file.replaces else ""
    return " ".join(word for word in (*edits, replaces) if word)


def _dtype(spec: Any, kind: str) -> str:
    return {"int": spec.target.int_dtype, "float": spec.target.float_dtype}.get(kind) or kind


def _dummy(spec: Any, input_: Any) -> str:
    """The generator of an input's dummies, with its arguments."""
    generators = {generator.name: generator for generator in spec.dummies.generators}
    return str(generators.get(input_.generator, input_.generator))


def _details(tensor: Any) -> str:
    """Where a tensor sits in the arguments or the result of `forward`, its layers, and its condition."""
    path = "" if tensor.path in ((), (tensor.name,)) else f"forward: {'.'.join(map(str, tensor.path))}"
    layers = "" if getattr(tensor, "layers", None) is None else f"for each of {tensor.layers}"
    return " ".join(word for word in (path, layers, "" if tensor.when is None else f"when {tensor.when}") if word)


def _output_name(difference: Any) -> str:
    return f"{difference.part}: {difference.output}"


def _figures(name: str, differences: Sequence[Any]) -> tuple[str, ...]:
    """The row of a group of outputs: its name, and the figures of the output with the largest relative difference."""
    worst = max(differences, key=lambda difference: difference.max_rel)
    return (
        name,
        f"{worst.max_abs:.1e}",
        f"{worst.max_rel:.1e}",
        f"{worst.tolerance:.1e}",
        "" if worst.own_error is None else f"{worst.own_error:.1e}",
        _STATUS[worst.passed],
        worst.worst_case if len(differences) == 1 else f"{worst.output}, {worst.worst_case}",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _cell(cell: str) -> str:
    return f'<td style="text-align:left">{escape(cell)}</td>'
