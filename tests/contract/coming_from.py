"""What to write instead of each public name of Optimum and of transformers.onnx: `coming_from.json`, and its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = json.loads((HERE / "coming_from.json").read_text())
INSTEAD: Mapping[str, Mapping[str, str]] = DATA["names"]
"""{module or class: {its public name: what to write instead}}."""

MARKS = ("<!-- names: written by tests/tools/optimum_names.py -->", "<!-- end of names -->")
"""The lines between which the tables stand, in README.md and in the README of this folder."""


def table(title: str, rows: Mapping[str, str]) -> str:
    """A table in Markdown: a name, and what to write instead."""
    lines = [f"| `{name}` | {instead.replace('|', chr(92) + '|')} |" for name, instead in rows.items()]
    return "\n".join([f"| `{title}` | instead |" if title else "| name | instead |", "| --- | --- |", *lines])


def every_name() -> str:
    """The tables of all names, one per module or class."""
    return "\n\n".join(table(title, rows) for title, rows in INSTEAD.items())


def most_used() -> str:
    """The table of the names that are used most, and where the others are."""
    split = (name.rpartition(".") for name in DATA["most used"])
    rows = {f"{title}.{name}": INSTEAD[title][name] for title, _, name in split}
    return f"{table('', rows)}\n\n[Every public name of both](tests/contract/README.md#every-name)."


FILES = {HERE / "README.md": every_name, ROOT / "README.md": most_used}


def between_marks(text: str, content: str) -> str:
    """A text with this content between the marks."""
    replaced = f"{MARKS[0]}\n\n{content}\n\n{MARKS[1]}"
    return re.sub(f"(?s){MARKS[0]}.*{MARKS[1]}", lambda _: replaced, text)


def write_tables() -> None:
    """Write the tables into both files."""
    for file, content in FILES.items():
        file.write_text(between_marks(file.read_text(), content()))
