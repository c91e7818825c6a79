"""The page of the models that see or hear and write: tests/sweeps/PARTS.md, from parts.json."""

from __future__ import annotations

import every_head
import every_part
import swept

PAGE = swept.SWEEPS / "PARTS.md"
"""The file of the page."""

TEXT = """\
# Models that see or hear and write, in parts

Written by `python tests/tools/coverage.py` from `parts.json`; a test checks that it is current. The pairs are those of
transformers' tables for images with texts, and for several modalities or from sequence to sequence where a class hears
and writes a text. Each tiny model was exported
with its check: every part against PyTorch at sizes that were not traced, then all parts one after the other against
`forward` and `generate`. Tried with {versions}. A line of a model that needs more packages names them.

```sh
python -m pytest -m sweep --record tests/architectures/test_every_part.py           # writes parts.json
python -m pytest -m sweep --record --left tests/architectures/test_every_part.py    # goes on after an interruption
```

{counts}

{table}
"""


def page() -> str:
    """The text of the page."""
    file = swept.recorded(every_part.NAME)
    results = {(name, task): line for name, tasks in file["results"].items() for task, line in tasks.items()}
    left = len({*every_part.pairs()} - results.keys())
    counts = {**every_head.counts(results.values()), "have no result yet": left}
    text = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return TEXT.format(
        versions=swept.runs_text(every_part.NAME),
        counts=f"Of {len(results) + left} pairs, {text}.",
        table=_table(results),
    )


def _table(results: dict[tuple[str, str], str]) -> str:
    head = ("model type", "task", "agrees, or why not")
    rows = ((*pair, _cell(line)) for pair, line in sorted(results.items()))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))


def _cell(line: str) -> str:
    return line.removeprefix(swept.NOT).replace("|", "/").replace("\n", " ")
