"""The figures that README shows: those of the last results, and no others.

    python benchmarks/readme.py

writes them into README between its two marks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import RESULTS, shown, table

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- figures: written by benchmarks/readme.py -->", "<!-- end of figures -->"

TABLES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "export_tiny",
        "Two layers, in a warm process: onnxfn's time is the whole export, checked; the peer's the graph alone.",
        {name: name for name in ("model", "onnxfn s", "transformers.exporters s", "ratio")},
    ),
    (
        "export_whole",
        "A checkpoint, as a whole process. onnxfn and Optimum check what they export, the others do not.",
        {
            "model": "model",
            "exporter": "exporter",
            "seconds": "s",
            "onnxfn / it": "onnxfn / it",
            "unchecked / it": "unchecked / it",
            "anonymous GB": "anonymous GB",
            "disk / parameters": "disk / parameters",
            "problem": "instead",
        },
    ),
    (
        "growth",
        "A tiny Llama with past of many layers, or wide, in a warm process.",
        {name: name for name in ("layers", "width", "graph s", "whole s", "transformers.exporters s", "whole / peer")},
    ),
    (
        "decode",
        "A decoder's graph in ONNX Runtime, float32.",
        {
            "model": "model",
            "graph of": "graph of",
            "load s": "load s",
            "prompt of 128 ms": "prompt of 128 ms",
            "token ms": "token ms",
            "token: onnxfn / it": "token: onnxfn / it",
            "problem": "instead",
        },
    ),
    (
        "large",
        "1.1 billion parameters: memory above the interpreter with its imports, and time beside what cannot be saved.",
        {
            name: name
            for name in (
                "exporter",
                "seconds",
                "imports s",
                "graph s",
                "copying s",
                "above imports GB",
                "disk / parameters",
                "problem",
            )
        },
    ),
)
"""Which results, what they are of, and which of their columns, under which names."""


def text(results: Path = RESULTS) -> str:
    """All tables, and what is required and does or does not hold."""
    found = {name: json.loads((results / f"{name}.json").read_text()) for name, _, _ in TABLES}
    shown_tables = [section(found[name], what, columns) for name, what, columns in TABLES]
    required = [one for name, _, _ in TABLES for one in found[name]["required"]]
    return "\n\n".join([*shown_tables, "What is required of these figures:", verdicts(required)])


def section(found: Mapping[str, Any], what: str, columns: Mapping[str, str]) -> str:
    """`python benchmarks/NAME.py`, what it measured, and its rows, with a problem in one word."""
    rows = [
        {title: row.get(column) for column, title in columns.items() if column != "problem"}
        | ({columns["problem"]: row["problem"].partition(":")[0]} if row.get("problem") else {})
        for row in found["rows"]
    ]
    often = f"medians of {found['runs']}" if found["runs"] > 1 else "one run, not figures to quote"
    return f"`python benchmarks/{found['benchmark']}.py` ({often}, {found['cores']} cores). {what}\n\n{table(rows)}"


def verdicts(required: Sequence[Mapping[str, Any]]) -> str:
    rows = [{"what": one["what"], "found": shown(one["found"]), "at most": str(one["at most"])} for one in required]
    return table([row | {"": one["verdict"]} for row, one in zip(rows, required, strict=True)])


def main() -> None:
    before, rest = README.read_text().split(BEGIN)
    README.write_text(f"{before}{BEGIN}\n\n{text()}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
