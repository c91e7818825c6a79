"""The card of a folder: a `README.md` for a repository on the hub, written from `report.json`."""

from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from onnxfn.export.jobs.request import command_line
from onnxfn.export.report.folder_report import folder_facts, outlines
from onnxfn.export.report.report_file import recorded
from onnxfn.specs.results.page import Outline, outline_tree
from onnxfn.specs.results.result_facts import ResultFacts, graph_rows
from onnxfn.specs.short_repr import counted
from onnxfn.specs.tasks.tasks import WITH_PAST
from onnxfn.weights.digests import sha256_of

CARD = "README.md"

DRAWING = "graph.svg"
ROW, INDENT, WIDTH, LETTERS = 20, 14, 760, 100
"""The height of a row, the indent of an inner box, and the width, in units; the most letters of a row."""

ONNXFN_CODE = """## onnxfn

```python
import onnxfn
model = onnxfn.load("FOLDER")
print(model.inputs, model.outputs)
```"""

BAR = 40
"""The length of the bar of a measure of 1."""


def card_text(report: Mapping[str, Any], *, is_drawn: bool = False) -> str:
    """The card of a folder from its `report.json`: what it was made of, its files with their errors, and its limits."""
    from huggingface_hub import ModelCardData

    task = (report["task"] or "").removesuffix(WITH_PAST)
    facts = folder_facts(report)
    head, *rows = [f"| {' | '.join(row)} |" for row in graph_rows(facts)]
    rows = [f"| `{row[2:].replace(' |', '` |', 1)}" for row in rows]
    limits = [line for _, lines in facts.notes for (line,) in lines]
    tags = ["onnx", "onnxfn", *([report["name"]] if report["name"] else [])]
    count = len(report["check"]["cases"])
    ports = [port for graph in report["graphs"].values() for port in graph["inputs"]]
    at_sizes = ", at sizes that were not traced" if any(isinstance(a, str) for p in ports for a in p["shape"]) else ""
    compared = f"were compared with PyTorch, in {counted(count, 'cases')} in all{at_sizes}"
    # No folder is named, so that equal exports have equal cards.
    for_hub = ModelCardData(library_name="onnx", pipeline_tag=task or None, tags=tags).to_yaml()
    sections = (
        f"---\n{for_hub}\n---",
        f"# {report['name'] or 'A model'}{f' for {task}' if task else ''}, in ONNX",
        _origin(report),
        "## Files",
        "\n".join((head, "|" + " --- |" * (head.count("|") - 1), *rows)),
        _plot(facts),
        f"![The modules of the graphs, and their weights]({DRAWING})" if is_drawn else "",
        f"The files {compared if count else 'were not compared with PyTorch'}.",
        ONNXFN_CODE,
        "## Limits\n\n" + "\n".join(f"- {line}" for line in limits) if limits else "",
    )
    return "\n\n".join(filter(None, sections)) + "\n"


def write_card(report: Mapping[str, Any], staging: Path, folder: Path) -> tuple[Path, ...]:
    """Writes the card of an export, and its drawing, to a staging folder; returns their paths."""
    # A `README.md` that no earlier export wrote, or that was changed since, stays; so does a drawing.
    earlier = recorded(folder)
    files = earlier.files if earlier else {}
    free = [
        name
        for name in (CARD, DRAWING)
        if not (folder / name).exists() or (name in files and sha256_of(folder / name) == files[name].sha256)
    ]
    if CARD not in free:
        return ()
    with suppress(ValueError):  # the weights are not written
        shown = outlines(staging / path for path in folder_facts(report).ports) if DRAWING in free else {}
        (staging / DRAWING).write_text(drawing(shown), encoding="utf-8") if any(shown.values()) else None
    is_drawn = (staging / DRAWING).exists()
    (staging / CARD).write_text(card_text(report, is_drawn=is_drawn), encoding="utf-8")
    return (staging / CARD, *([staging / DRAWING] if is_drawn else []))


def _origin(report: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in report["versions"].items() if version)
    model = f"a PyTorch model of the type `{report['name']}`" if report["name"] else "a PyTorch model"
    source = f" Its weights: {report['weights_from']}." if report["weights_from"] else ""
    opsets = sorted({str(graph["opset"]) for graph in report["graphs"].values()})
    written = f"ONNX files of {model}, opset {', '.join(opsets)}.{source} Written with {versions}."
    if report.get("request") is None:
        return written
    return f"{written}\n\nThis command writes such a folder:\n\n```sh\n{command_line(report['request'])}\n```"


def _plot(facts: ResultFacts) -> str:
    """A bar for each file with measurements, the largest file first; nothing of fewer than two."""
    paths = sorted(facts.files, key=lambda path: -facts.sizes[path])
    measures = ("agreement", "kl", "cosine", "iou", "cases")  # the most telling first
    measured = [
        (path, name, facts.files[path][name]) for path in paths for name in measures if facts.files[path].get(name)
    ]
    first = {path: (name, value) for path, name, value in reversed(measured)}
    bars = {path: "#" * round(BAR * min(max(float(value), 0), 1)) for path, (_, value) in first.items()}
    lines = [
        f"{facts.files[path]['size']:>9}  {bars[path]:{BAR}}  {' '.join(first[path])} {path}"
        for path in paths
        if path in first
    ]
    return "\n".join(("```", *lines, "```")) if len(lines) > 1 else ""


def drawing(outlines: Mapping[str, Outline]) -> str:
    """The outlines of files as SVG, the height of a row for each module that has weights or several modules."""
    shapes, row = list[str](), 0
    for file, rows in outlines.items():
        inner, row = _boxes(file, outline_tree(rows), 0, row)
        shapes += inner
    style = "rect{fill:#48f;fill-opacity:.08;stroke:#48f}text{font:12px sans-serif}tspan{fill:#777}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {row * ROW}" width="{WIDTH}">'
    ground = f'<path fill="#fff" d="M0 0H{WIDTH}V{row * ROW}H0z"/>'
    return "\n".join((head, f"<style>{style}</style>{ground}", *shapes, "</svg>\n"))


def _boxes(name: str, tree: Mapping[str, Any], depth: int, row: int) -> tuple[list[str], int]:
    """The box of a module from a row on, with the boxes of its modules inside, and the row after it."""
    modules = {each: inner for each, inner in tree.items() if isinstance(inner, dict)}
    if depth and len(modules) == len(tree) == 1:
        [(inner_name, inner)] = modules.items()
        return _boxes(f"{name}.{inner_name}", inner, depth, row)
    inside, end = list[str](), row + 1
    for each, inner in modules.items():
        shapes, end = _boxes(each, inner, depth + 1, end)
        inside += shapes
    x, y, height = depth * INDENT, row * ROW, (end - row) * ROW
    weights = ", ".join(f"{each} {inner}" for each, inner in tree.items() if each not in modules)[:LETTERS]
    box = f'<rect x="{x + 1}" y="{y + 1}" width="{WIDTH - 2 * x - 2}" height="{height - 2}" rx="3"/>'
    text = f'<text x="{x + 8}" y="{y + 14}">{escape(name)} <tspan>{escape(weights)}</tspan></text>'
    return [box + text, *inside], end
