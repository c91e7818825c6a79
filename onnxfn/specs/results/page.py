"""A result as HTML: a page of one file, or a part of a notebook; plots are SVG whose places are percents."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from math import log10
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.specs.results import printing
from onnxfn.specs.results.measurements import WORDS, Rows, quality
from onnxfn.specs.results.result_facts import ResultFacts, file_rows, port_sections
from onnxfn.specs.results.snippet import snippet

CLASSES: Mapping[str, str] = MappingProxyType(
    dict(zip(("ok", *WORDS, "FAILED"), ("ok", "ok", "fair", "bad", "bad"), strict=True))
)
"""A status -> the class of its color."""

HEADS = frozenset({"file", "output", "section", "name", "module"})
"""The first cells of rows that are the heads of columns."""

Outline = Sequence[Sequence[str]]
"""The weights of a file: names with `{0..11}` for layers, and types."""

PAGE = '<body class="onnxfn page">'
"""What every page has, and nothing else: by it a page is replaced."""

NO_OUTLINES: Mapping[str, Outline] = MappingProxyType({})


def report_facts(report: Any) -> ResultFacts:
    """What is shown of a report alone."""
    summary = " · ".join(printing.report_words(report)[1:])
    return ResultFacts(printing.check_status(report), summary, {}, (), {}, (), report=report)


def page(facts: ResultFacts, outlines: Mapping[str, Outline] = NO_OUTLINES) -> str:
    """The page of a result; `outlines` are those of its files."""
    return pages([(facts, outlines)])


def pages(results: Sequence[tuple[ResultFacts, Mapping[str, Outline]]]) -> str:
    """The page of several results, such as the parts of a pipeline, one below the other."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = f"<title>{escape(results[0][0].title)}</title><style>{_style()}</style>"
    body = "\n".join(f"<main>{_body(*result)}</main>" for result in results)
    return f'<!doctype html>\n<html lang="en"><head>{head}{style}</head>\n{PAGE}{body}</body></html>\n'


def fragment(facts: ResultFacts) -> str:
    """A result inside a notebook."""
    return f'<div class="onnxfn"><style>{_style()}</style>{_body(facts, NO_OUTLINES)}</div>'


@cache
def _style() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def _body(facts: ResultFacts, outlines: Mapping[str, Outline]) -> str:
    report = facts.report
    verdict = "none" if report is None else "bad" if not report.passed else "ok"
    verdict = "fair" if verdict == "ok" and quality(report.measurements) == "poor" else verdict
    ports, files = port_sections(facts.ports, are_named=len(facts.files) > 1), file_rows(facts)
    findings, sections, differences, compared, measured, unchecked, cases = (
        printing.report_sections(report) if report is not None else [("", [])] * 7
    )
    is_open = len(outlines) == 1  # the tree of a single file
    trees = [_folded(name, [], _branch(outline_tree(each)), is_open=is_open) for name, each in outlines.items()]
    parts = (
        f'<header class="{verdict}"><h1>{escape(facts.title)}</h1><p>{escape(facts.summary)}</p></header>',
        _section(*findings),
        _section(f"files in {facts.root}" if facts.root else "files", files),
        _variants(facts),
        *(_section(name, [("name", "type"), *rows], split=True) for name, rows in ports if rows),
        f"<details open><summary>call it</summary><pre>{escape(snippet(facts))}</pre></details>" if facts.ports else "",
        _errors(report),
        _folded(*differences, is_open=report is not None and not report.passed),
        *(_folded(*each) for each in (sections, measured)),
        *(_section(*each) for each in facts.notes),
        _section(*unchecked),
        _bars("seconds", [(stage, value, f"{value:.2f}") for stage, value in facts.seconds]),
        _folded("outline: modules and their weights", [], "".join(trees)),
        *(_folded(*each) for each in (compared, cases, *facts.details)),
    )
    return "\n".join(filter(None, parts))


def _section(heading: str, rows: Rows, *, split: bool = False) -> str:
    return f"<h2>{escape(heading)}</h2>{_table(rows, split=split)}" if rows else ""


def _folded(heading: str, rows: Rows, inner: str = "", *, is_open: bool = False) -> str:
    if not rows and not inner:
        return ""
    count = f" <small>{len(rows) - (rows[0][0] in HEADS)}</small>" if rows else ""
    return f"<details{' open' * is_open}><summary>{escape(heading)}{count}</summary>{inner or _table(rows)}</details>"


def _table(rows: Rows, *, split: bool = False) -> str:
    """Rows as a table; a single cell is as wide as the table. `split`: names and types are code."""
    width, lines = max(map(len, rows)), []
    for number, row in enumerate(rows):
        tag = "th" if number == 0 and row[0] in HEADS and len(rows) > 1 else "td"
        span = f' colspan="{width}"' if len(row) < width else ""
        lines.append(f"<tr>{''.join(_cell(tag, cell, span, is_code=split) for cell in row)}</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _cell(tag: str, cell: str, span: str, *, is_code: bool) -> str:
    is_number = bool(re.fullmatch(r"[\d.e+-]+( [kMG]?B| million| billion| thousand)?", cell))
    shown = escape(cell) if is_number else _breakable(cell)
    classes = " ".join(filter(None, (CLASSES.get(cell, ""), "number" * is_number)))
    inner = f"<code>{shown}</code>" if is_code and tag == "td" else shown
    return f"<{tag}{span}{f' class={chr(34)}{classes}{chr(34)}' if classes else ''}>{inner}</{tag}>"


def _row(label: str, drawing: str, value: str = "", kind: str = "") -> str:
    figure = f'<svg height="20">{drawing}</svg><span class="{kind}">{escape(value)}</span>'
    return f'<div class="row"><span>{_breakable(label)}</span>{figure}</div>'


def _breakable(name: str) -> str:
    """A name that may be broken at its dots, underscores and slashes."""
    return re.sub(r"([._/])", r"\1<wbr>", escape(name))


def _bars(heading: str, rows: Iterable[tuple[str, float, str]]) -> str:
    """Numbers as bars, each with a label and a text."""
    rows = list(rows)
    most = max((value for _, value, _ in rows), default=0) or 1
    bars = [
        _row(label, f'<rect x="0" y="4" height="12" rx="2" width="{value / most:.1%}"/>', shown)
        for label, value, shown in rows
    ]
    return f'<h2>{escape(heading)}</h2><div class="plot">{"".join(bars)}</div>' if rows else ""


def _errors(report: Any) -> str:
    """The error of each output in each case as a multiple of its bound, on a logarithmic axis with the limit at 1."""
    points = printing.report_points(report) if report is not None else {}
    low, high = printing.ends_of_axis(points)

    def at(value: float) -> float:
        return 4 + 92 * (log10(min(max(value, 10.0**low), 10.0**high)) - low) / (high - low)

    limit = f'<line class="limit" x1="{at(1):.1f}%" x2="{at(1):.1f}%" y1="0" y2="100%"/>'
    rows = [_row(name, limit + _dots(of_row, at), *_worst(of_row)) for name, of_row in points.items()]
    ticks = {f"{10.0**power:g}": 10.0**power for power in range(low, 1)}
    ticks |= {f"{10.0 ** int(high):g}": 10.0 ** int(high)}
    labels = "".join(f'<text x="{at(tick):.1f}%" y="14">{name}</text>' for name, tick in ticks.items())
    heading = "<h2>error / bound</h2><p>Each dot is a case or a measurement: it passes at the line or left of it.</p>"
    return f'{heading}<div class="plot">{"".join(rows)}{_row("", labels)}</div>' if points else ""


def _dots(points: Mapping[str, float], at: Any) -> str:
    dots = (
        f'<circle class="{"ok" if value <= 1 else "bad"}" cx="{at(value):.1f}%" cy="10" r="4">'
        f"<title>{escape(case)}: {'exact' if value == 0 else f'{value:.2g}'}</title></circle>"
        for case, value in points.items()
    )
    return "".join(dots)


def _worst(points: Mapping[str, float]) -> tuple[str, str]:
    """The largest multiple of a row as text, and the class of its color."""
    worst = max(points.values(), default=0.0)
    return "exact" if worst == 0 else f"{worst:.2g}", "ok" if worst <= 1 else "bad"


def _variants(facts: ResultFacts) -> str:
    """Quantized files: how good each is against how large it is; nothing of fewer than two files with a quality."""
    measures = ("agreement", "cosine", "iou")
    name = next((each for each in measures if sum(each in row for row in facts.files.values()) > 1), "")
    points = [
        (file, facts.sizes.get(file, 0) / 10**6, float(row[name])) for file, row in facts.files.items() if row.get(name)
    ]
    if len(points) < 2:  # noqa: PLR2004 - a point alone compares nothing
        return ""
    most, least = max(size for _, size, _ in points), min([*(value for *_, value in points), 0.9])
    shown, lowest = [], -20.0
    for file, size, value in sorted(points, key=lambda point: -point[2]):
        x, y = 8 + 40 * size / most, 20 + 120 * (1 - value) / ((1 - least) or 1)
        lowest = max(y, lowest + 18)  # labels stand below each other
        columns, stem = facts.files[file], escape(Path(file).stem)
        shown.append(
            f'<circle class="{CLASSES.get(columns.get("status", ""), "ok")}" cx="{x:.1f}%" cy="{y:.0f}" r="5"/>'
            f'<text class="start" x="{x + 2:.1f}%" y="{lowest + 4:.0f}">{stem} {columns[name]}</text>'
        )
    axis = (
        '<line class="axis" x1="8%" x2="8%" y1="10" y2="170"/><line class="axis" x1="8%" x2="98%" y1="170" y2="170"/>'
    )
    ends = f'<text x="8%" y="186">0</text><text x="48%" y="186">{most:.3g} MB</text>'
    ends += f'<text class="start" x="0" y="24">1</text><text class="start" x="0" y="144">{least:.2g}</text>'
    return f'<h2>{escape(name)} against size</h2><svg class="scatter" height="192">{axis}{ends}{"".join(shown)}</svg>'


def outline_tree(rows: Outline) -> dict[str, Any]:
    """The weights of a file as a tree of modules, with types as leaves; repeated layers have a range as their name."""
    tree: dict[str, Any] = {}
    for name, type_ in rows:
        branch = tree
        *modules, weight = re.split(r"\.(?![^{]*\})", name)
        for module in modules:
            branch = branch.setdefault(module, {})
        branch[weight] = type_
    return tree


def _branch(tree: Mapping[str, Any]) -> str:
    items = [
        f"<li><details><summary>{escape(name)}</summary>{_branch(inner)}</details></li>"
        if isinstance(inner, dict)
        else f"<li>{escape(name)} <code>{escape(inner)}</code></li>"
        for name, inner in tree.items()
    ]
    return f"<ul>{''.join(items)}</ul>"
