"""A plan as a drawing: the parts, and the tensors that they hand to each other. The drawing is SVG, written as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import accumulate
from typing import Any

from onnxfn.specs.layer_groups import grouped_rows
from onnxfn.specs.short_repr import counted

BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN = 230, 52, 56, 8
BEND, LABEL_GAP = 30, 6
LABEL_HEIGHT, LETTER_WIDTH = 15, 6.6
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
    labels = [_labels(names) for _, _, names in arrows]
    bends = list(accumulate((_width(texts) for texts in labels), initial=MARGIN + BOX_WIDTH + BEND))
    height = 2 * MARGIN + len(tops) * (BOX_HEIGHT + GAP) - GAP
    width = bends[-1]
    shapes = [
        *(_box(part, tops[part.name]) for part in plan.parts),
        *(_arrow(tops[start], tops[end], bend) for (start, end, _), bend in zip(arrows, bends, strict=False)),
        *(
            _texts(tops[start], tops[end], bend, texts)
            for (start, end, _), bend, texts in zip(arrows, bends, labels, strict=False)
        ),
    ]
    style = "max-width:100%;height:auto;font:12px sans-serif"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    colors = 'fill="currentColor" stroke="none"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {colors} style="{style}">{"".join(shapes)}</svg>'


def _arrows(plan: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The parts that hand tensors to each other: from, to, and the names of the tensors, layers folded.

    A link may name a part that this plan does not have; it has no arrow.
    """
    names = {part.name for part in plan.parts}
    for part in plan.parts:
        sources = dict.fromkeys(link.part for link in part.spec.links if link.part in names)
        for source in sources:
            rows = [(link.output,) for link in part.spec.links if link.part == source]
            yield source, part.name, tuple(name for (name,) in grouped_rows(rows))
        if part.spec.feedback:
            rows = [(feedback.output,) for feedback in part.spec.feedback]
            yield part.name, part.name, tuple(name for (name,) in grouped_rows(rows))


def _labels(names: tuple[str, ...]) -> tuple[str, ...]:
    """The first names of the tensors of an arrow, and the number of the others."""
    return names if len(names) <= MOST_LABELS else (*names[: MOST_LABELS - 1], f"{len(names) - MOST_LABELS + 1} more")


def _width(texts: tuple[str, ...]) -> int:
    """The room for the names at an arrow: the next arrow lies to the right of it."""
    return 2 * LABEL_GAP + round(LETTER_WIDTH * max(map(len, texts)))


def _box(part: Any, top: int) -> str:
    tensors = f"{counted(len(part.spec.inputs), 'inputs')}, {counted(len(part.spec.outputs), 'outputs')}"
    size = f'x="{MARGIN}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"'
    return (
        f'<rect {size} fill-opacity="0.08" stroke="currentColor"/>'
        f'<text x="{MARGIN + 10}" y="{top + 22}" font-weight="bold">{escape(part.name)}.onnx</text>'
        f'<text x="{MARGIN + 10}" y="{top + 40}" fill-opacity="0.8">{tensors}</text>'
    )


def _arrow(start: int, end: int, bend: int) -> str:
    """An arrow from the right side of a box to that of another one, or of itself."""
    right = MARGIN + BOX_WIDTH
    first, last = start + BOX_HEIGHT // 3, end + 2 * BOX_HEIGHT // 3
    head = f"M{right + 8} {last - 4} L{right} {last} L{right + 8} {last + 4}"
    return f'<path d="M{right} {first} H{bend} V{last} H{right} {head}" fill="none" stroke="currentColor"/>'


def _texts(start: int, end: int, bend: int, texts: tuple[str, ...]) -> str:
    """The names of tensors next to the middle of an arrow."""
    top = (start + end + BOX_HEIGHT) // 2 - LABEL_HEIGHT * (len(texts) - 1) // 2
    return "".join(
        f'<text x="{bend + LABEL_GAP}" y="{top + LABEL_HEIGHT * index + 4}">{escape(text)}</text>'
        for index, text in enumerate(texts)
    )
