"""A plan as a drawing: the parts, and the tensors that they hand to each other. The drawing is SVG, written as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from onnxfn.specs.layer_groups import grouped_rows
from onnxfn.specs.short_repr import counted

BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN = 230, 52, 56, 8
LABEL_HEIGHT = 15
MOST_LABELS = 3
"""Names of tensors at one arrow. Of more, their number is shown."""


def plan_svg(plan: Any) -> str:
    """A box for each part, below each other, and an arrow with the names of the tensors from one part to another.

    >>> from onnxfn.specs.planned import Part, Plan, PlannedSpec
    >>> from onnxfn.specs.records import Link
    >>> decoder = PlannedSpec(links=[Link("encoder_hidden_states", "encoder_model", "last_hidden_state")])
    >>> svg = plan_svg(Plan([Part("encoder_model", PlannedSpec()), Part("decoder_model", decoder)]))
    >>> svg.count("<rect"), svg.count("<path"), "last_hidden_state" in svg
    (2, 1, True)
    """
    tops = {part.name: MARGIN + index * (BOX_HEIGHT + GAP) for index, part in enumerate(plan.parts)}
    arrows = list(_arrows(plan))
    height = MARGIN + len(tops) * (BOX_HEIGHT + GAP)
    width = 2 * MARGIN + 2 * BOX_WIDTH + 40 * len(arrows)
    shapes = [
        *(_box(part, tops[part.name]) for part in plan.parts),
        *(_arrow(tops[start], tops[end], 40 * index) for index, (start, end, _) in enumerate(arrows)),
        *(_labels(tops[start], tops[end], 40 * index, names) for index, (start, end, names) in enumerate(arrows)),
    ]
    style = "max-width:100%;height:auto;font:12px sans-serif"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">{"".join(shapes)}</svg>'


def _arrows(plan: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The parts that hand tensors to each other: from, to, and the names of the tensors, layers folded."""
    for part in plan.parts:
        sources = dict.fromkeys(link.part for link in part.spec.links)
        for source in sources:
            rows = [(link.output,) for link in part.spec.links if link.part == source]
            yield source, part.name, tuple(name for (name,) in grouped_rows(rows))
        if part.spec.feedback:
            rows = [(feedback.output,) for feedback in part.spec.feedback]
            yield part.name, part.name, tuple(name for (name,) in grouped_rows(rows))


def _box(part: Any, top: int) -> str:
    tensors = f"{counted(len(part.spec.inputs), 'inputs')}, {counted(len(part.spec.outputs), 'outputs')}"
    return (
        f'<rect x="{MARGIN}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" fill="#eef3fb" stroke="#456"/>'
        f'<text x="{MARGIN + 10}" y="{top + 22}" font-weight="bold">{escape(part.name)}.onnx</text>'
        f'<text x="{MARGIN + 10}" y="{top + 40}" fill="#456">{tensors}</text>'
    )


def _arrow(start: int, end: int, offset: int) -> str:
    """An arrow from the right side of a box to that of another one, or of itself."""
    right, bend = MARGIN + BOX_WIDTH, MARGIN + BOX_WIDTH + 30 + offset
    first, last = start + BOX_HEIGHT // 3, end + 2 * BOX_HEIGHT // 3
    head = f"M{right + 8} {last - 4} L{right} {last} L{right + 8} {last + 4}"
    return f'<path d="M{right} {first} H{bend} V{last} H{right} {head}" fill="none" stroke="#456"/>'


def _labels(start: int, end: int, offset: int, names: tuple[str, ...]) -> str:
    """The names of tensors next to the middle of an arrow, with a white edge, since other arrows lie below them."""
    left, middle = MARGIN + BOX_WIDTH + 36 + offset, (start + end + BOX_HEIGHT) // 2
    shown = names if len(names) <= MOST_LABELS else (*names[: MOST_LABELS - 1], f"{len(names) - MOST_LABELS + 1} more")
    top = middle - LABEL_HEIGHT * (len(shown) - 1) // 2
    edge = 'stroke="white" stroke-width="4" paint-order="stroke"'
    return "".join(
        f'<text x="{left}" y="{top + LABEL_HEIGHT * index + 4}" {edge}>{escape(name)}</text>'
        for index, name in enumerate(shown)
    )
