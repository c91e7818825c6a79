"""The tables of what the sweeps validated: tests/sweeps/README.md and HEADS.md, and the summary in README.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import median
from textwrap import fill
from typing import Any

import every_head
import every_input
import head_table
import part_table
import peer_table
import real_sizes
import without_rows
from swept import FAMILIES, LONGEST, NOT, ROOT, SWEEPS, FamilyResults, recorded, runs_text, seen, validated

MARKS = ("<!-- coverage: written by tests/tools/coverage.py -->", "<!-- end of coverage -->")
"""The lines of README.md between which the summary stands."""

README_WIDTH = 125
"""The longest line of README.md, in characters."""


def summary() -> str:
    """A row per family: how many model types and tasks are validated, when, and on which commit."""
    head = ("family", "model types", "model type and task", "attempted, not validated", "seen", "results")
    return table(head, map(_family_row, FAMILIES))


def _family_row(family: str) -> tuple[Any, ...]:
    file = recorded(family)
    count = sum(len(validated(tasks)) for tasks in file["results"].values())
    attempted = sum(map(len, file["results"].values()))
    result_link = f"[{family}.json]({family}.json)"
    return (
        FAMILIES[family],
        _validated_types(family),
        count,
        attempted - count,
        runs_text(family),
        result_link,
    )


def model_types() -> set[str]:
    """The model types with a validated task."""
    return {name for family in FAMILIES for name, tasks in seen(family).items() if validated(tasks)}


def every_task() -> str:
    """A row per model type: the validated tasks, and the others with their reasons."""
    together: FamilyResults = {}
    for family in FAMILIES:
        for name, tasks in seen(family).items():
            together.setdefault(name, {}).update(tasks)
    return table(("model type", "validated", "attempted, and why not"), map(_type_row, sorted(together.items())))


def _type_row(item: tuple[str, Mapping[str, str]]) -> tuple[str, str, str]:
    name, tasks = item
    refused = (f"{task}: {line.removeprefix(NOT)}" for task, line in tasks.items() if line.startswith(NOT))
    return name, ", ".join(sorted(validated(tasks))), "; ".join(refused).replace("|", "/")


def table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


SLOWEST = 10
"""How many of the tiny models that take longest are named."""

SWEEPS_README = """\
# Results of the sweeps

Written by `python tests/tools/coverage.py`; a test checks that it is current.

A sweep exports a tiny random model of each model type and task, checks the files against PyTorch at batch sizes and
lengths that were not traced, and compares their names and axes with the plan.

```sh
python -m pytest -m sweep -n 2 --record           # writes the JSON files of this folder
python -m pytest -m sweep -n 2 --record --left    # goes on after an interruption
```

Without `--record` a sweep writes nothing. Lines are recorded from a clean tree. Each file holds its lines, and for each
line the run that gave it: day, commit, versions. Of lines before 2026-11-24 the last run of the file is known.

{summary}

Together {types} model types.

`decoding.json` holds the decoders that also decoded a text step by step, past their window where they have one, and the
largest difference from PyTorch's forward over the whole text. Decoders are compared at tokens, not at padding, where
PyTorch's own float32 is noise. A derived spec takes the inputs that are known: those of a model of text and images may
be its text alone. `derived.json` holds the inputs that each took. `mutants.json` holds the seeded faults of
`tests/check`: for each model how many the check found, and each fault that it did not find. `nodes.json` holds the
nodes of each file of a row's last task, and the dynamic axes of its inputs and outputs; its sweep fails where a graph
has more nodes than were recorded by over 2 %, or fewer dynamic axes.

## Every head

`heads.json` holds the pairs of a model type and a task that the tables of transformers' auto classes list, and the
inputs that each graph took. `refused` are errors before the export, `failed` the errors of the export and of its check.
Of {head_pairs} pairs, {heads}. [HEADS.md](HEADS.md) has a line for each pair.
[PARTS.md](PARTS.md) has those that are written in parts: models that see or hear and write.

```sh
python -m pytest -m sweep --record tests/architectures/test_every_head.py           # writes heads.json
python -m pytest -m sweep --record --left tests/architectures/test_every_head.py    # goes on after an interruption
```

### Without a row

{without_rows}

### The same with transformers.exporters

{peers}

## Inputs that graphs leave out

```sh
python -m pytest -m sweep --record tests/architectures/test_every_input.py          # writes every_input.json
```

{inputs}

## Seconds of a tiny model

{seconds}

## Real sizes

The default configuration of every row whose model has at most {most} million parameters: one task of each row, random
weights, each in a process of its own, one after another. Weights that are all equal are made uneven, and norms over
batches have the statistics of the dummy inputs. The outputs vary, so that a fault shows: for that, some types have
larger weights, another seed, or the statistics of a new model. Mamba has smaller weights: with those of its default
configuration, rounding grows until the check refuses the file (`tests/models/default_models.py`).

`s` are the seconds of the export with its check, `processor s` those of the processor, `GB` the largest memory of the
process, `GFLOP/s` the speed of products of matrices just before: with about 110, other processes ran meanwhile. Small
models come first. At most 60 s are wanted on a quiet machine with two threads. In a slow hour of 23 November 2026, at
137 to 144 GFLOP/s and with the weights of new models, six rows took 61 to 71 s: eomt_dinov3, videoprism, seggpt,
sam_hq, eomt, sam.

```sh
python -m pytest -m sweep --record tests/architectures/test_real_sizes.py           # writes real_sizes.json
python -m pytest -m sweep --record --left tests/architectures/test_real_sizes.py    # goes on after an interruption
```

{real_summary}

{real}

## Every model type and task

{every}
"""


def sweeps_readme() -> str:
    """The text of tests/sweeps/README.md."""
    return SWEEPS_README.format(
        summary=summary(),
        types=len(model_types()),
        every=every_task(),
        head_pairs=len(every_head.pairs()),
        heads=heads_summary(),
        without_rows=without_rows.summary(),
        peers=peer_table.section(),
        most=real_sizes.MOST_PARAMETERS,
        real=real_table(),
        real_summary=real_summary(),
        seconds=seconds_summary(),
        inputs=every_input.summary(),
    )


def heads_summary() -> str:
    """How many pairs of the tables of transformers agreed, were refused, failed, or have no result yet."""
    lines = [line for tasks in seen(every_head.NAME).values() for line in tasks.values()]
    counts = {**every_head.counts(lines), "have no result yet": len(every_head.pairs()) - len(lines)}
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))


def seconds_summary() -> str:
    """How long the export of a tiny model of a row takes with its check, and which take longest."""
    times = {
        f"{model_type} ({task})": seconds
        for family in FAMILIES
        for model_type, tasks in recorded(family).get("seconds", {}).items()
        for task, seconds in tasks.items()
    }
    if not times:
        return "No sweep has recorded them yet."
    longest = sorted(times, key=times.__getitem__, reverse=True)[:SLOWEST]
    text = (
        f"An export of a row's tiny model takes {median(times.values()):.1f} s of the processor with its check, in the "
        f"median of {len(times)} pairs, in a warm process; at most {LONGEST:.0f} are allowed. The longest: "
        f"{', '.join(f'{name} {times[name]:.1f}' for name in longest)}."
    )
    return fill(text, README_WIDTH - 5, break_long_words=False, break_on_hyphens=False)


def real_table() -> str:
    """A row per model type whose default configuration was exported."""
    head = ("model type", "task", "million parameters", "result", "s", "processor s", "GB", "GFLOP/s")
    swept = [item for item in real_sizes.seen().items() if _has_result(item[1])]
    return table(head, map(_real_row, sorted(swept, key=lambda item: item[1].get("parameters", 0))))


def _has_result(result: Mapping[str, Any]) -> bool:
    return real_sizes.is_swept(result) and not real_sizes.is_left(result)


def _real_row(item: tuple[str, Mapping[str, Any]]) -> tuple[Any, ...]:
    name, result = item
    figures = (result.get(key, "") for key in ("seconds", "processor", "memory", "speed"))
    return name, result["task"], result.get("parameters", ""), result["line"].replace("|", "/"), *figures


def real_summary() -> str:
    """How many default configurations were exported, how many agree, and which were not."""
    results = real_sizes.seen()
    swept = list(filter(_has_result, results.values()))
    left = sum(map(real_sizes.is_left, results.values()))
    large = sum(result["line"] == real_sizes.TOO_LARGE for result in results.values())
    without = [name for name, result in results.items() if result["line"].startswith(real_sizes.NO_MODEL)]
    text = (
        f"{sum(map(real_sizes.passed, swept))} of {len(swept)} agree. {left} rows have no result yet. "
        f"{large} rows have larger models. Rows: {runs_text(real_sizes.NAME)}."
    )
    text += f" The default configuration builds no model for {', '.join(sorted(without))}." if without else ""
    text += f" Of those that do not agree: {'; '.join(map(': '.join, real_sizes.REASONS.items()))}."
    return fill(text, README_WIDTH - 5, break_long_words=False, break_on_hyphens=False)


def root_summary() -> str:
    """The text between the marks of README.md: the number of validated model types, of each family and together."""
    counts = [f"{FAMILIES[family]}: {_validated_types(family)}" for family in FAMILIES]
    first, *_, last = sorted(run["date"] for family in FAMILIES for run in recorded(family)["runs"])
    days = f"on {first}" if first == last else f"between {first} and {last}"
    text = (
        f"Together {len(model_types())} model types agree, last run {days}. "
        f"{'; '.join(counts)}. {peer_table.sentence()} "
        "[Every pair](tests/sweeps/README.md)."
    )
    return fill(text, README_WIDTH, break_long_words=False, break_on_hyphens=False)


def _validated_types(family: str) -> int:
    """The number of model types of a family with a validated task."""
    return sum(map(bool, map(validated, seen(family).values())))


def write_tables() -> None:
    """Write tests/sweeps/README.md, HEADS.md and PARTS.md, and the summary into README.md."""
    (SWEEPS / "README.md").write_text(sweeps_readme())
    head_table.PAGE.write_text(head_table.page())
    part_table.PAGE.write_text(part_table.page())
    readme = ROOT / "README.md"
    text = f"{MARKS[0]}\n\n{root_summary()}\n\n{MARKS[1]}"
    readme.write_text(re.sub(f"(?s){MARKS[0]}.*{MARKS[1]}", lambda _: text, readme.read_text()))
