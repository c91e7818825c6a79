"""Pages of the recorded results: a summary, and a table of each sweep with the columns that its page names."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from textwrap import fill
from typing import Any

import client_results
import swept
from swept import FAMILIES, NOT, ROOT, SWEEPS

MARKS = ("<!-- coverage: written by tests/tools/coverage.py -->", "<!-- end of coverage -->")
"""The lines of README.md between which the summary stands."""

COLUMNS = ("model type", "task", "result", "seconds", "day")
"""The columns of a page that names no others."""

OF_PAGE: Mapping[str, tuple[str, ...]] = {
    "heads": ("model type", "task", "result", "inputs", "day"),
    "mutants": ("model type", "task", "found", "equivalent", "allowed", "missed", "survivors"),
    "real_sizes": ("model type", "task", "parameters", "result", "seconds", "processor", "memory", "day"),
    "clients": ("client", "kind", "case", "result", "versions", "day"),
}
"""The columns of other pages, by the name of the file."""

AGREES = "max abs diff "
"""How the line of a pair that agrees begins; its inputs and its limits follow."""

KINDS = ("no tiny model", "refused", "failed", "of texts alone", "too large", "no default model")
"""How the reasons begin that the summary counts by themselves."""

Row = Mapping[str, Any]


def rows(name: str) -> Iterator[Row]:
    """The lines of a sweep: {column: value}, where a line that is a record has a column for each of its fields."""
    file = swept.recorded(name)
    for model_type, inner in file["results"].items():
        tasks = inner if isinstance(inner, dict) and not isinstance(inner.get("task"), str) else {"": inner}
        for task, line in tasks.items():
            where = (model_type, task) if task else (model_type,)
            seconds = file.get("seconds", {}).get(model_type, {}).get(task, "")
            fixed = {"model type": model_type, "task": task, "day": swept.run_of(name, *where)["date"]}
            fields = line if isinstance(line, dict) else {"line": line}
            yield {**fixed, "seconds": seconds, **fields, **(_fields(fields["line"]) if "line" in fields else {})}


def _fields(line: str) -> Row:
    """The result of a line, the kind of its reason, "" if it agrees, and its inputs.

    >>> _fields("max abs diff 4e-06, of input_ids, bbox, sequence_length up to 96")
    {'reason': '', 'result': '4e-06, sequence_length up to 96', 'inputs': 'input_ids, bbox'}
    >>> _fields("not: failed: CheckFailed: differs")
    {'reason': 'failed', 'result': 'failed: CheckFailed: differs'}
    """
    if not line.startswith(AGREES):
        text = line.removeprefix(NOT)
        kind = next((kind for kind in KINDS if text.startswith(kind)), "for other reasons")
        return {"reason": kind if line.startswith(NOT) else "", "result": text}
    difference, *words = (word.removeprefix("of ") for word in line.removeprefix(AGREES).split(", "))
    inputs = ", ".join(word for word in words if " " not in word)
    return {"reason": "", "result": ", ".join((difference, *(word for word in words if " " in word))), "inputs": inputs}


def client_rows() -> Iterator[Row]:
    """What the programs showed that load the files: a row for each case."""
    for client, seen in client_results.recorded().items():
        for kind, cases in seen["results"].items():
            for case, line in cases.items():
                fixed = {"client": client, "versions": seen["versions"], "day": seen["date"]}
                yield {**fixed, "kind": kind, "case": case, "result": line}


def table(columns: Iterable[str], lines: Iterable[Row]) -> str:
    """A table in Markdown; columns that no row fills are left out."""
    every = list(lines)
    filled = [column for column in columns if any(row.get(column) not in ("", None) for row in every)]
    cells = [filled, ["---"] * len(filled), *([_cell(row.get(column, "")) for column in filled] for row in every)]
    return "\n".join(f"| {' | '.join(each)} |" for each in cells)


def _cell(value: Any) -> str:
    text = "; ".join(value) if isinstance(value, list) else str(value)
    return text.replace("|", "/").replace("\n", " ")


def summary() -> str:
    """A row for each file: how many lines agree, why the others do not, and the runs that gave them."""
    names = [path.stem for path in sorted(SWEEPS.glob("*.json"))]
    lines = ({"file": name, "of": FAMILIES.get(name, ""), **_counted(name)} for name in names)
    return table(("file", "of", "lines", "agree", "others", "seen"), lines)


def _counted(name: str) -> Row:
    reasons = Counter(row["reason"] for row in rows(name) if "reason" in row)
    others = ", ".join(f"{number} {word}" for word, number in reasons.most_common() if word)
    return {"lines": reasons.total(), "agree": reasons[""], "others": others, "seen": swept.runs_text(name)}


def seconds_summary() -> str:
    """How long the export of a tiny model of a row takes with its check, and which take longest."""
    timed = [(row["seconds"], row) for name in FAMILIES for row in rows(name) if row["seconds"] != ""]
    if not timed:
        return "No sweep has recorded seconds yet."
    longest = sorted(timed, key=lambda each: -each[0])[:10]
    names = ", ".join(f"{row['model type']} ({row['task']}) {seconds}" for seconds, row in longest)
    middle = median(seconds for seconds, _ in timed)
    return f"Seconds of the processor, export with check: {middle:.1f} in the median of {len(timed)}. Longest: {names}."


def pages() -> dict[str, str]:
    tables = {path.stem: rows(path.stem) for path in sorted(SWEEPS.glob("*.json"))} | {"clients": client_rows()}
    texts = {
        f"{name}.md": f"# {name}\n\n{table(OF_PAGE.get(name, COLUMNS), lines)}\n" for name, lines in tables.items()
    }
    return {"summary.md": f"# Results of the sweeps\n\n{summary()}\n\n{seconds_summary()}\n", **texts}


def write_root_summary() -> None:
    """Write into README.md, between the marks, the number of validated model types, of each family and together."""
    types = {
        family: {name for name, tasks in swept.seen(family).items() if swept.validated(tasks)} for family in FAMILIES
    }
    counts = "; ".join(f"{FAMILIES[family]}: {len(names)}" for family, names in types.items())
    first, *_, last = sorted(run["date"] for family in FAMILIES for run in swept.recorded(family)["runs"])
    summary = (
        f"Together {len(set().union(*types.values()))} model types agree, seen between {first} and {last}. {counts}. "
        "[How to see every pair](tests/sweeps/README.md)."
    )
    filled = fill(summary, 125, break_long_words=False, break_on_hyphens=False)
    text = f"{MARKS[0]}\n\n{filled}\n\n{MARKS[1]}"
    readme = ROOT / "README.md"
    readme.write_text(re.sub(f"(?s){MARKS[0]}.*{MARKS[1]}", lambda _: text, readme.read_text()))
