"""What a result, or the `report.json` of a folder, shows on a terminal, in a notebook, on a page and on a card."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

from attrs import field, frozen

from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import listed
from onnxfn.specs.results import printing
from onnxfn.specs.results.measurements import Rows, is_first_variant, section_rows, variant_rows, with_heads
from onnxfn.specs.results.printing import OPTIONAL, Sections, file_size, magnitude
from onnxfn.specs.short_repr import grouped_rows

VERBOSE = "--verbose"
"""Where the command line has the rest of what a screen cuts."""

LINES, WIDTH = 40, 80
"""The most lines of a result on a terminal, and the characters of a line."""

LEAST_LINES = 4
"""The lines of a section, its heading included, that are shown at least; there is no room for later sections."""

Ports = tuple[Rows, Rows]
"""The inputs and the outputs of a file: names and types."""


@frozen
class ResultFacts:
    """What is shown of a result.

    Attributes:
        title: Its name, task, opset and verdict.
        summary: Its time, size and versions.
        files: The path of each graph -> what is known of it, by column.
        others: The paths of the other files.
        ports: The path of each graph of the first dtype -> its inputs and outputs.
        notes: Limits, remarks, and what is left out: sections of any form.
        details: Sections that few readers need.
        report: The report of the check; None without one.
        seconds: The time of each stage, where it is known.
        root: The folder in which the paths are.
        sizes: The path of each graph -> the bytes of its file and of its external data.
    """

    title: str
    summary: str
    files: Mapping[str, Mapping[str, str]]
    others: Sequence[str]
    ports: Mapping[str, Ports]
    notes: Sections
    details: Sections = ()
    report: Any = None
    seconds: tuple[tuple[str, float], ...] = field(default=(), converter=as_tuple)
    root: str = ""
    sizes: Mapping[str, int] = field(factory=dict)


def exported_facts(exported: Any) -> ResultFacts:
    """What is shown of the result of an export."""
    names, sizes = relative_names(exported), {f"{size.part}.onnx": size for size in exported.graphs}
    graphs = {name: sizes[PurePath(name).name] for name in names if PurePath(name).name in sizes}
    first = {f"{part.name}.onnx": part for part in exported.plan.parts if is_first_variant(part, exported.plan)}
    of_first = {name: first[PurePath(name).name] for name in graphs or first if PurePath(name).name in first}
    fused = [(f"{part}.onnx", "; ".join(map(str, each))) for part, each in exported.fusions if each]
    return ResultFacts(
        " · ".join(printing.exported_words(exported)),
        printing.exported_summary(exported),
        {
            name: graph_columns(printing.dtype_of(exported.plan[size.part]), size.bytes, size.parameters, size.nodes)
            | variant_columns(exported.report, PurePath(name).stem)
            for name, size in graphs.items()
        },
        [name for name in names if name not in graphs],
        {name: _ports(part, graphs.get(name)) for name, part in of_first.items()},
        [
            ("derived from", [(part.spec.derived,) for part in exported.plan.parts[:1] if part.spec.derived]),
            *printing.chosen_sections(exported.plan, exported.report),
            *printing.left_out_sections(exported.plan),
            ("weights", [(exported.weights_from,)] if exported.weights_from else []),
            ("not quantized", [(left.weight, left.reason) for left in exported.not_quantized]),
            ("limits of sizes", [(str(limit),) for limit in exported.limits]),
        ],
        [("repeated layers", [(repeat,) for repeat in exported.repeats]), ("fused operators", fused)],
        exported.report,
        exported.seconds,
        str(PurePath(exported.path).parent if exported.path.endswith(".onnx") else exported.path),
        {name: size.bytes for name, size in graphs.items()},
    )


def relative_names(exported: Any) -> list[str]:
    """The paths of the files of a result, relative to its folder."""
    root = PurePath(exported.path)
    root = root.parent if root.suffix == ".onnx" else root
    paths = map(PurePath, exported.files)
    return [(path.relative_to(root) if path.is_relative_to(root) else path).as_posix() for path in paths]


def graph_columns(dtype: str, size: int, parameters: int | None, nodes: int | None) -> dict[str, str]:
    """The dtype of a graph, the bytes of its file and of its external data, its parameters and its nodes."""
    numbers = {"parameters": magnitude(parameters) if parameters else "", "nodes": str(nodes or "")}
    dtype = "" if parameters == 0 else dtype  # that of its weights
    return {"dtype": dtype, "size": file_size(size).partition(",")[0] if size else "", **numbers}


def variant_columns(report: Any, part: str) -> dict[str, str]:
    """The worst figures of a file in a report, by column."""
    head, *rows = variant_rows(report) if report is not None else [()]
    return dict(zip(head[1:], next((row for row in rows if row[0] == f"{part}.onnx"), ())[1:], strict=False))


def _ports(part: Any, size: Any) -> Ports:
    """The inputs and outputs of a part with types: those of its graph, else those that are planned."""
    if size is not None and size.inputs:
        return [*size.inputs], [*size.outputs]
    types = dict(size.outputs) if size is not None else {}
    sections = dict(printing.spec_sections(printing.with_float_dtype(part.spec), types))
    return tuple([row[:2] for row in sections.get(name, ())] for name in ("inputs", "outputs"))  # type: ignore[return-value]


def _width(rows: Rows) -> int:
    return sum(2 + max(map(len, column)) for column in zip(*rows, strict=True)) - 2


LEAST_NEEDED = ("dtype", "nodes", "parameters", "weights", "cases", "kl")
"""The columns of files that a narrow screen leaves out, the first one first."""


def graph_rows(facts: ResultFacts, leave_out: Sequence[str] = ()) -> Rows:
    """A row for each graph below the heads of its columns."""
    columns = [name for name in dict.fromkeys(chain.from_iterable(facts.files.values())) if name not in leave_out]
    rows = [(name, *(row.get(column, "") for column in columns)) for name, row in facts.files.items()]
    return with_heads(("file", *columns), rows)


def file_rows(facts: ResultFacts, width: int = 0) -> Rows:
    """The rows of the graphs, then the names of the other files; with a width, without columns that have no room."""
    several = (graph_rows(facts, LEAST_NEEDED[:number]) for number in range(len(LEAST_NEEDED) + 1))
    rows = next((each for each in several if not width or _width(each) <= width), graph_rows(facts, LEAST_NEEDED))
    return [*rows, *([(listed(facts.others, most=6),)] if facts.others else [])]


def plan_ports(plan: Any) -> dict[str, Ports]:
    """The planned inputs and outputs of each file of the first dtype."""
    return {f"{part.name}.onnx": _ports(part, None) for part in plan.parts if is_first_variant(part, plan)}


def port_sections(ports: Mapping[str, Ports], *, are_named: bool = False) -> Sections:
    """The inputs and outputs of each file: those of a file that is called for each token first, layers in one row.

    `are_named`: the titles name the file, as there are others of other dtypes.
    """
    looped = {name for name, each in ports.items() if "decoder" in name or any("past" in row[0] for row in each[0])}
    ordered = sorted(ports.items(), key=lambda item: item[0] not in looped)  # those are called for each token
    shows_file = are_named or len(ordered) > 1
    return [
        (f"{kind}{f' of {PurePath(name).name}' if shows_file else ''}", joined_rows(grouped_rows(rows)))
        for name, of_file in ordered
        for kind, rows in zip(("inputs", "outputs"), of_file, strict=True)
    ]


def type_text(port: Mapping[str, Any], unnamed: str = "_") -> str:
    """The type and the axes of an input or output of `report.json`: `float32[batch_size, 2]`."""
    shape = ", ".join(unnamed if size is None else str(size) for size in port["shape"])
    return f"{port['dtype']}[{shape}]{OPTIONAL if port.get('optional') else ''}"


def joined_rows(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Rows in which the keys and the values of a cache, which have the same type, are one: `past.0.key, .value`."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in rows:
        stem, dot, last = name.rpartition(".")
        joined.setdefault((stem if dot else name, *cells), []).append(last if dot else "")
    return [
        (", .".join([f"{stem}.{ends[0]}", *ends[1:]]) if ends[0] else stem, *cells)
        for (stem, *cells), ends in joined.items()
    ]


def brief_sections(facts: ResultFacts, width: int = 0) -> Sections:
    """The files, the inputs and outputs, the findings, what limits the files, and the names of the cases."""
    report = facts.report
    failed = [] if report is None or report.passed else printing.report_sections(report)[:4]
    names = dict.fromkeys(map(printing.case_name, report.cases if report is not None else ()))
    return [
        ((f"files in {facts.root}" if facts.root else "files"), file_rows(facts, width)),
        *port_sections(facts.ports, are_named=len(facts.files) > 1),
        *failed,
        *facts.notes,
        ("not checked", [(listed(report.unchecked, most=2),)] if report is not None and report.unchecked else []),
        ("cases", [("; ".join(names),)] if names else []),
    ]


def all_sections(facts: ResultFacts) -> Sections:
    """Everything that is known of a result; of several dtypes the report has one row for each file."""
    report, seconds = facts.report, ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in facts.seconds)
    check = [] if report is None else printing.report_sections(report)
    if report is not None and not report.findings and len(facts.files) > len(facts.ports) > 0:
        worst = ("ONNX Runtime against PyTorch, the worst of all outputs; .report has each", variant_rows(report))
        check = [worst, (printing.BY_SECTIONS, section_rows(report.sections)), *check[-2:]]
    parts = [*brief_sections(facts)[: 1 + 2 * len(facts.ports)], *facts.notes, *facts.details]
    return [*parts, ("seconds", [(seconds,)] if seconds else []), *check]


def brief(facts: ResultFacts, more: str = VERBOSE) -> str:
    """A result in less than LINES lines of WIDTH characters; inputs and outputs are cut last. `more`: where all is."""
    return screen(facts.title, brief_sections(facts, WIDTH - 4), facts.summary, more, whole=1 + 2 * len(facts.ports))


def screen(heading: str, sections: Sections, summary: str = "", more: str = VERBOSE, *, whole: int = 0) -> str:
    """Sections as text in less than LINES lines of WIDTH characters: the longest lose lines, the first `whole` last."""
    title = [*printing.wrapped(heading, WIDTH, 2), *(printing.wrapped(f"  {summary}", WIDTH, 2) if summary else [])]
    shown = [(name, printing.section_lines(rows, WIDTH - 4)) for name, rows in sections]
    first, last = ([each for each in part if each[1]] for part in (shown[:whole], shown[whole:]))
    room = LINES - 1 - len(title)
    needed = sum(1 + len(each) for _, each in first)
    if needed > room - 2 * len(last):
        files, others = _cut(first[:1], room, more), [*first[1:], *last]  # all files, if there is room
        return "\n".join([*title, *files, *_cut(others, room - len(files), more)])
    return "\n".join(title + _cut(first, room, more) + _cut(last, room - needed, more))


def _cut(sections: Sequence[tuple[str, list[str]]], room: int, more: str) -> list[str]:
    """The lines of sections with their headings, at most `room`; the longest sections lose lines."""
    sections = sections[: max(room // LEAST_LINES, 0)]
    fits = [most for most in range(1, LINES + 1) if sum(1 + min(most, len(each)) for _, each in sections) <= room]
    most = max(fits, default=1)
    shown = [
        (name, each if len(each) <= most else [*each[: most - 1], f"and {len(each) - most + 1} more lines: {more}"])
        for name, each in sections
    ]
    return [line for name, each in shown for line in (f"  {name}", *(f"    {row}" for row in each))]


def everything(facts: ResultFacts) -> str:
    """All that is known of a result, as text."""
    return printing.text(facts.title, all_sections(facts), facts.summary)
