"""The page of every pair of a model type and a task: tests/sweeps/HEADS.md, from heads.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import every_head
import swept

PAGE = swept.SWEEPS / "HEADS.md"
"""The file of the page."""

TEXT = """\
# Every pair of a model type and a task

Written by `python tests/tools/coverage.py` from `heads.json`; a test checks that it is current. The pairs are those of
transformers' auto classes. Each was tried with {versions}.

- agrees: the largest difference from PyTorch in the check, at sizes that were not traced, and the limits of the graph.
- inputs: those of the graphs. All others of `forward` keep their defaults.
- day: when it was seen.
- Where a pair does not agree, the reason follows `refused` (onnxfn says that it cannot export it), `failed` (an error
  of the export, or a difference), `of texts alone` (the graph takes no images or sounds, which the model reads, for a
  task that is not one of texts) or `no tiny model` (transformers builds none here: nothing is known of the pair).

{counts}

{table}
"""

AGREES = re.compile(r"max abs diff (?P<difference>[^,]+)(?:, of (?P<rest>.*))?")


def page() -> str:
    """The text of the page."""
    file = swept.recorded(every_head.NAME)
    lines = [line for tasks in file["results"].values() for line in tasks.values()]
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(every_head.counts(lines).items()))
    return TEXT.format(
        versions=swept.runs_text(every_head.NAME), counts=f"Of {len(lines)} pairs, {counts}.", table=_table(file)
    )


def _table(file: Mapping[str, Mapping[str, Mapping[str, str]]]) -> str:
    rows = (
        (name, task, *_cells(line), swept.run_of(every_head.NAME, name, task)["date"])
        for name, tasks in file["results"].items()
        for task, line in tasks.items()
    )
    head = ("model type", "task", "agrees, or why not", "inputs", "day")
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))


def _cells(line: str) -> tuple[str, str]:
    """How far a pair is from PyTorch with its limits, or why there is no result; and its inputs.

    >>> _cells("max abs diff 4e-06, of input_ids, bbox, sequence_length up to 96")
    ('4e-06, sequence_length up to 96', 'input_ids, bbox')
    """
    match = AGREES.fullmatch(line)
    if match is None:
        return line.removeprefix(swept.NOT).replace("|", "/").replace("\n", " "), ""
    rest = (match["rest"] or "").split(", ")
    limits = [word for word in rest if " " in word]
    return ", ".join((match["difference"], *limits)), ", ".join(word for word in rest if word and word not in limits)


def missing(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs whose result agrees and names no inputs."""
    seen = swept.seen(every_head.NAME)
    lines = ((pair, seen.get(pair[0], {}).get(pair[1], swept.NOT)) for pair in pairs)
    return {pair for pair, line in lines if not line.startswith(swept.NOT) and not _cells(line)[1]}
