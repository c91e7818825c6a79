"""The drawing beside a card: the modules of each graph as boxes, with their weights; repeated layers are one box."""

from collections.abc import Mapping
from html import escape
from typing import Any

from onnxfn.specs.results.page import Outline, outline_tree

DRAWING = "graph.svg"
ROW, INDENT, WIDTH, LETTERS = 20, 14, 760, 100
"""The height of a row, the indent of an inner box, and the width, in units; the most letters of a row."""


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
