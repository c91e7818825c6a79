"""Specs, plans, reports and results as tables; a report as a plot, which needs matplotlib.

`text` prints sections. Other functions take a record, which they do not import, because it imports this module.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import floor, inf, log10
from operator import itemgetter
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.results.measurements import STATUS, Rows, measured_rows, multiple, quality, section_rows, with_heads
from onnxfn.specs.results.output_types import MODALITY_OF, output_dtype, tensor_dtype
from onnxfn.specs.short_repr import counted, grouped_row, grouped_rows, layer_groups

Sections = Sequence[tuple[str, Rows]]

LEAST = -3
"""The power of ten at the left end of a plot of errors: smaller ones, and exact outputs, are drawn there."""

WHY_ALLOWED: Mapping[str, str] = MappingProxyType(
    {
        "float64 was not needed": "a few roundings of the dtype x the output's size",
        "by the tolerance of the spec": "atol x the output's size (1 at least) + rtol x the element",
        "by scale": "many roundings of the dtype x the output's size",
        "PyTorch in ": "a multiple of PyTorch's own error",
    }
)
"""Words of a reference -> how large an error may be. The size of an output is the root mean square of its elements."""

BY_SECTIONS = "ONNX Runtime against PyTorch, by sections"

OPTIONAL = ", optional"
"""The end of the type of an input with a default: that of an adapter, which is empty."""

LEAST_ROOM = 24
"""The characters that a last cell has at least where it goes on below itself; else it goes on at the left."""


def text(title: str, sections: Sections, summary: str = "") -> str:
    """Sections below a title and a summary; the columns of each section are aligned. Empty sections are left out.

    >>> print(text("bert", [("inputs", [("input_ids", "int64"), ("mask", "int64")]), ("outputs", [])], "2 files"))
    bert
      2 files
      inputs
        input_ids  int64
        mask       int64
    """
    lines = [title, *([f"  {summary}"] if summary else [])]
    for heading, rows in filter(itemgetter(1), sections):
        lines += [f"  {heading}", *(f"    {line}" for line in section_lines(rows))]
    return "\n".join(lines)


def section_lines(rows: Rows, width: int = 0) -> list[str]:
    """Rows in aligned columns; with a width, a long line goes on below its last cell."""
    widths = [max(map(len, column)) for column in zip_longest(*(row for row in rows if row[1:]), fillvalue="")]
    lines: list[str] = []
    for row in rows:  # a single cell stands alone, however long it is
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)] if row[1:] else row
        line = "  ".join(cells).rstrip()
        lines += wrapped(line, width, len(line) - len(row[-1].rstrip())) if width else [line]
    return lines


def wrapped(line: str, width: int, indent: int) -> list[str]:
    """The lines of a text of at most this width, the further ones indented; a long path stays whole."""
    following = " " * (indent if width - indent >= LEAST_ROOM else 4)
    if len(line) <= width:
        return [line]
    return wrap(line, width, subsequent_indent=following, break_on_hyphens=False, break_long_words=False)


def magnitude(number: int) -> str:
    """A number as a person reads it: 512, 67.0 million, 7.2 billion."""
    words = ((10**9, " billion"), (10**6, " million"), (10**3, " thousand"))
    return next((f"{number / unit:.1f}{word}" for unit, word in words if number >= unit), str(number))


def spec_sections(spec: Any, types: Mapping[str, str] = MappingProxyType({})) -> Sections:
    """The inputs, outputs, files and tasks of a spec, one row for all layers; `types` are those of the graph."""
    past, dtype = spec.cache.past if hasattr(spec, "cache") else None, tensor_dtype(spec, "float")
    made_by = {generator.name: str(generator) for generator in spec.dummies.generators}
    forms = ((each, f"{tensor_dtype(spec, each.kind)}{graph_axes(spec, each)}") for each in spec.inputs)
    inputs = [(each.name, of, made_by.get(each.generator, each.generator), _details(each)) for each, of in forms]
    if past in ("inputs", "both"):
        rows = spec.cache.rows
        inputs += [(row.input_name, f"{dtype}{row.input_axes}", "", f"for each of {row.layers}") for row in rows]
    outputs = [
        (each.name, types.get(each.name, f"{output_dtype(spec, each)}{graph_axes(spec, each)}"), _details(each))
        for each in spec.outputs
    ]
    if past in ("outputs", "both"):
        returned = (row for row in spec.cache.rows if row.output_name)
        outputs += [(row.output_name, f"{dtype}{row.output_axes}", f"for each of {row.layers}") for row in returned]
    parts = getattr(spec, "parts", None)  # a planned spec has none
    files = [(f"{file.name}.onnx", _file_summary(file)) for file in parts.files] if parts and not spec.inputs else []
    tasks = [(overlay.name,) for overlay in getattr(spec, "tasks", ())] if spec.task is None else []
    return [
        ("derived from", [(spec.derived,)] if spec.derived else []),
        ("inputs", grouped_rows(inputs)),
        ("outputs", grouped_rows(outputs)),
        ("files", files),
        ("tasks", tasks),
    ]


def report_sections(report: Any) -> Sections:
    """The findings, the figures of each output (layers by the worst, failed ones apart), and the cases."""
    head = ("output", "error", "bound", "error/bound", "status", "worst at")
    names = [(f"{each.part}: {each.output}", STATUS[each.passed]) for each in report.differences]
    rows = [
        _figures(grouped_row([names[index] for index in group])[0], [report.differences[index] for index in group])
        for group in layer_groups(names)
    ]
    # The number of comparisons with each reference, and the bound of an error: see check/verdict.
    counts = Counter(reference for difference in report.differences for reference in difference.references)
    why = {each: next((reason for words, reason in WHY_ALLOWED.items() if words in each), "") for each in counts}
    return [
        ("findings", [(finding,) for finding in report.findings]),
        (BY_SECTIONS, section_rows(report.sections)),
        ("ONNX Runtime against PyTorch", with_heads(head, rows)),
        ("compared with", [(each, counted(count, "comparisons"), why[each]) for each, count in counts.items()]),
        ("measured against PyTorch in float32", measured_rows(report.measurements)),
        ("not checked", [(name,) for name in report.unchecked]),
        ("cases", [(case,) for case in report.cases]),
    ]


def with_float_dtype(spec: Any) -> Any:
    """The spec of a graph with its float dtype: float32 if the spec of an export has none."""
    return evolve(spec, target=evolve(spec.target, float_dtype=spec.target.float_dtype or "float32"))


def left_out_sections(plan: Any) -> Sections:
    """The modalities of a plan, the parts of the model that it omits, and its remarks, one line each."""
    missing = {MODALITY_OF[omitted.name] for omitted in plan.left_out if omitted.name in MODALITY_OF}
    sections = (
        ("modalities", [(", ".join(plan.modalities),)] if len({*plan.modalities, *missing}) > 1 else []),
        ("left out", [(str(omitted),) for omitted in plan.left_out]),
        ("remarks", [(remark,) for remark in plan.remarks]),
    )
    return list(filter(itemgetter(1), sections))


def dtype_of(part: Any) -> str:
    """The dtype that a part is for, else that of its weights."""
    return str(part.dtype or part.spec.target.float_dtype or "float32")


def weight_sections(plan: Any) -> Sections:
    """The size of the weights of each file of a plan, with its dtype, if that is known."""
    dtypes = {part.name: dtype_of(part) for part in plan.parts}
    rows = [(f"{size.part}.onnx", dtypes.get(size.part, ""), file_size(size.bytes)) for size in plan.weight_bytes]
    heading = (
        "bytes of weights alone, at most; a file has nodes and constants, too, and lacks weights that it does not need"
    )
    return [(heading, rows)] if rows else []


def chosen_sections(plan: Any, report: Any = None) -> Sections:
    """What is predicted of chosen bits beside what was measured, and these bits; before an export the limits alone."""
    if not plan.chosen:
        pairs = ((part.name, rule.within) for part in plan for rule in part.spec.target.quantization)
        limits = dict.fromkeys((name, f"within {within}") for name, within in pairs if within)
        return [("bits are chosen while PyTorch runs; bytes are those of the fewest", [*limits])] if limits else []
    head = ("file", "within", "KL, predicted", "measured", "bytes of weights, predicted", "written")
    kl = {each.part: f"{each.value:.3g}" for each in report.measurements if each.measure == "kl"} if report else {}
    sizes = {each.part: file_size(each.bytes) for each in plan.weight_bytes}
    rows = [
        (part, str(each.within), f"{each.kl:.3g}", kl.get(part, ""), file_size(each.bytes), sizes.get(part, ""))
        for part, each in ((each.part, each) for each in plan.chosen)
    ]
    rules = {each.part: plan[each.part].spec.target.quantization for each in plan.chosen}
    bits = {part: [(rule.where, _bits(rule)) for rule in of_part] for part, of_part in rules.items()}
    by_part = ((f"bits of the weights of {part}", grouped_rows(of_part)) for part, of_part in bits.items())
    return [("bits that were chosen", with_heads(head, rows)), *by_part]


def _bits(rule: Any) -> str:
    return "those of the graph" if rule.kind == "as is" else str(rule.bits)


def file_size(number: int) -> str:
    """A number of bytes as a person reads it, and exactly: 2.20 GB, 2200119296 bytes."""
    units = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
    short = next((f"{number / unit:.2f} {name}, " for unit, name in units if number >= unit), "")
    return f"{short}{counted(number, 'bytes')}"


def _shown_task(spec: Any) -> str | None:
    """The task of a spec; none for a part of a pipeline: Optimum's name of its task, semantic-segmentation, is odd."""
    task: str | None = None if str(spec.name).startswith("diffusers.") else spec.task
    return task


def title(spec: Any) -> str:
    """The name, task, opset and tolerances of a spec in one line; without any, how much it has."""
    words = [
        spec.name,
        _shown_task(spec),
        None if spec.target.opset is None else f"opset {spec.target.opset}",
        None if spec.target.static_cache is None else f"static cache of {spec.target.static_cache}",
        f"inputs and outputs {spec.target.io_dtype}" if has_io_dtype(spec.target) else None,
        None if spec.check.atol is None else f"atol {spec.check.atol:g}",
        None if spec.check.rtol is None else f"rtol {spec.check.rtol:g}",
    ]
    return " · ".join(word for word in words if word) or _content(spec)


def has_io_dtype(target: Any) -> bool:
    """Whether the inputs and outputs of a graph have another float type than its weights."""
    return target.io_dtype not in (None, target.float_dtype or "float32")


def _content(spec: Any) -> str:
    """A spec in words: `spec of 3 inputs, 1 output`; its `repr` if it has no tensor, task or case."""
    words = [counted(n, of) for of in ("inputs", "outputs", "tasks", "cases") if (n := len(getattr(spec, of, ())))]
    return f"spec of {', '.join(words)}" if words else repr(spec)


def check_status(report: Any) -> str:
    """Whether a check passed, as text, and the quality of the worst file."""
    word = quality(report.measurements) if report.passed else ""
    return f"check {'passed' if report.passed else 'FAILED'}{word and f', quality {word}'}"


def report_points(report: Any) -> dict[str, dict[str, float]]:
    """The errors of each output in each case, and measurements, as multiples of what is allowed; layers are one row."""
    rows = [((f"{each.part}: {each.output}",), each.errors) for each in report.differences]
    rows += [
        ((f"{each.part}: {each.output}, {each.measure}",), [(each.cases, *_shortfall(each))])
        for each in report.measurements
        if each.floor is not None
    ]
    parts = dict.fromkeys(each.part for each in (*report.differences, *report.measurements))
    rows.sort(key=lambda row: [*parts].index(row[0][0].partition(": ")[0]))
    return {
        grouped_row([rows[index][0] for index in group])[0]: _largest([rows[index][1] for index in group])
        for group in layer_groups([name for name, _ in rows])
    }


def _shortfall(measurement: Any) -> tuple[float, float]:
    """How far a measurement is from perfect, and how far its floor is. Perfect is 1, and 0 for a KL divergence."""
    best = 0.0 if measurement.measure == "kl" else 1.0
    return abs(best - measurement.value), abs(best - measurement.floor)


def ends_of_axis(points: Mapping[str, Mapping[str, float]]) -> tuple[int, float]:
    """The powers of ten at the left and the right end of a plot of the points of a report."""
    values = [value for of_row in points.values() for value in of_row.values() if 0 < value < inf]
    return max(floor(log10(min([*values, 0.1]))), LEAST), log10(max([*values, 1.0])) + 0.3


def draw_report(report: Any, axes: Any = None) -> Any:
    """Draws the points of a report in axes of matplotlib, by default new ones. OnnxfnError without matplotlib."""
    points = report_points(report)
    cases = tuple(dict.fromkeys(case for of_row in points.values() for case in of_row))
    if axes is None:
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise OnnxfnError("plot needs matplotlib: pip install 'onnxfn[plot]'") from error
        _, axes = plt.subplots(figsize=(11, 2 + 0.3 * len(points) + 0.2 * len(cases)), layout="constrained")
    low, high = (10.0**power for power in ends_of_axis(points))
    for size, case in enumerate(cases, 5):  # equal points are rings in rings
        drawn = [(row, of_row[case]) for row, of_row in enumerate(points.values()) if case in of_row]
        rows, places = [row for row, _ in drawn], [min(max(value, low), high) for _, value in drawn]
        (line,) = axes.plot(places, rows, "o", fillstyle="none", markersize=size, label=case)
        beyond = [row for row, value in drawn if value < low]
        axes.scatter([low] * len(beyond), beyond, marker="<", color=line.get_color())
    axes.axvline(1.0, color="black", linestyle="--", label="bound")
    title = f"ONNX Runtime against PyTorch:\n{check_status(report)}"
    axes.set(xscale="log", xlabel="error / bound (an arrow: smaller)", title=title)
    axes.set_yticks(range(len(points)), [*points])
    axes.invert_yaxis()
    axes.legend(fontsize="small", loc="upper right", bbox_to_anchor=(1, 0), borderaxespad=5)
    return axes


def _largest(errors: Sequence[Sequence[tuple[str, float, float]]]) -> dict[str, float]:
    points: dict[str, float] = {}
    for case, error, allowed in (each for of_output in errors for each in of_output):
        name = re.sub(r" \(.*\)", "", case)  # without its sizes
        points[name] = max(points.get(name, 0.0), multiple(error, allowed))
    return points


def exported_summary(exported: Any) -> str:
    """The time, the size and the versions of an export, in one line; sizes of graphs stand beside their files."""
    seconds = sum(seconds for _, seconds in exported.seconds)
    words = (
        f"{seconds:.1f} s without loading",
        file_size(exported.bytes).partition(",")[0] if exported.bytes else "",
        versions_text(dict(exported.versions)),
    )
    return " · ".join(filter(None, words))


def versions_text(versions: Mapping[str, str | None]) -> str:
    """The versions that a reader needs first."""
    named = ("onnxfn", "torch", "transformers", "onnxruntime")
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version and name in named)


def report_words(report: Any) -> list[str]:
    """Whether a check passed, and the number of its comparisons, cases and findings."""
    words = [check_status(report), counted(len(report.differences), "comparisons"), counted(len(report.cases), "cases")]
    others = {"measurements": len(report.measurements), "findings": len(report.findings)}
    return [*words, *(counted(count, name) for name, count in others.items() if count)]


def exported_words(exported: Any) -> list[str]:
    """The name, the task, the opset and the status of the check of an export."""
    spec = exported.plan.parts[0].spec
    status = "unchecked" if exported.report is None else check_status(exported.report)
    return [word for word in (spec.name, _shown_task(spec), f"opset {exported.opset}", status) if word]


def _file_summary(file: Any) -> str:
    edits = (f"{edit.function}({', '.join(f'{key}={value}' for key, value in edit.arguments)})" for edit in file.edits)
    replaces = f"replaces {', '.join(file.replaces)}" if file.replaces else ""
    return " ".join(word for word in (*edits, replaces) if word)


def _details(tensor: Any) -> str:
    """The place of a tensor in the arguments or the result of `forward`, its layers, and its condition."""
    path = "" if tensor.path in ((), (tensor.name,)) else f"forward: {'.'.join(map(str, tensor.path))}"
    layers = "" if getattr(tensor, "layers", None) is None else f"for each of {tensor.layers}"
    return " ".join(word for word in (path, layers, "" if tensor.when is None else f"when {tensor.when}") if word)


def case_name(case: str) -> str:
    """A case without its sizes; a formula in its name stays.

    >>> case_name("other side of n // 2 * (m // 2) <= 7 (swin.py:16) (n=9, m=4)")
    'other side of n // 2 * (m // 2) <= 7 (swin.py:16)'
    """
    return re.sub(r" \((?:[^()]|\([^()]*\))*=\d+\)", "", case)


def _figures(name: str, differences: Sequence[Any]) -> tuple[str, ...]:
    """The row of a group of outputs: its name, and the figures of the output that is nearest to its bound."""
    worst = max(differences, key=lambda difference: (difference.of_bound, difference.max_abs))
    case = case_name(worst.worst_case)
    return (
        name,
        f"{worst.max_abs:.1e}",
        f"{worst.tolerance:.1e}",
        f"{worst.of_bound:.2g}",
        STATUS[worst.passed],
        case if len(differences) == 1 else f"{worst.output}, {case}",
    )
