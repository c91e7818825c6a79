"""A picture of the folders of the package, and which of them import from which, read from the sources."""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "onnxfn"
PICTURE = PACKAGE / "export" / "rooms.svg"

ROOMS = {
    "specs": ("records, axes, compose, edits, plan", "#d9ead3"),
    "architectures": ("rows, families, patches", "#d9ead3"),
    "weights": ("bytes: where they lie, where they go", "#fce5cd"),
    "models": ("a PyTorch model as a function", "#fce5cd"),
    "graphs": ("capture, layers, passes, quantization", "#cfe2f3"),
    "run": ("sessions, feeds, generate", "#cfe2f3"),
    "check": ("cases, verdict, measures, bisect", "#fff2cc"),
    "export": ("pipeline, report, batch, command line", "#ead1dc"),
}
"""From a folder, in the order of imports, to what it has and its color."""

STEP, WIDTH, HEIGHT = 56, 270, 42
"""From a box to the next, and the size of a box."""


def imports():
    """The pairs (folder, another one that it imports from)."""
    return {
        (room, other)
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        for other in re.findall(r"(?:from|import) onnxfn\.(\w+)", path.read_text())
        if other in ROOMS and other != room
    }


def picture():
    """The text of the SVG: a box for each folder, and an arrow to each one that it imports from."""
    names, height = [*ROOMS], STEP * len(ROOMS) + 10
    marker = '<marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" fill="#111">',
            f'<defs>{marker}<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
            f'<rect width="640" height="{height}" fill="#fff"/>',
            *(box(10 + STEP * index, name, *ROOMS[name]) for index, name in enumerate(names)),
            *(arrow(names.index(room), names.index(other)) for room, other in sorted(imports())),
            "</svg>\n",
        ]
    )


def box(top, name, contents, color):
    return (
        f'<rect x="10" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{color}" stroke="#444"/>'
        f'<text x="22" y="{top + 18}" font-size="14" font-weight="bold">{name}</text>'
        f'<text x="22" y="{top + 34}" font-size="12">{contents}</text>'
    )


def arrow(index, other):
    """From the lower part of a box to the upper part of an earlier one; the farther, the wider the curve."""
    left = 10 + WIDTH
    start, end = (10 + STEP * place + HEIGHT * part for place, part in ((index, 0.25), (other, 0.8 - 0.05 * index)))
    right = left + 45 * (index - other) + 20
    path = f"M{left},{start:.1f} C{right},{start:.1f} {right},{end:.1f} {left + 2},{end:.1f}"
    return f'<path d="{path}" fill="none" stroke="#555" stroke-opacity="0.7" marker-end="url(#a)"/>'
