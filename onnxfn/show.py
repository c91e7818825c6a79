"""Rows as a table: text for a terminal, HTML for a notebook. Knows no record."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import zip_longest

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


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _cell(cell: str) -> str:
    return f'<td style="text-align:left">{escape(cell)}</td>'
