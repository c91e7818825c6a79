"""What the runs of clients showed, `results.json`, and the tables of README.md that are made of it.

`results.json` holds {client: {"versions", "date", "commit", "results": {kind: {case: line}}}}. A line that starts with
`not: ` says why a case does not work.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import swept
from client_environments import versions
from running import PROGRAMS

HERE = Path(__file__).parent
FILE = HERE / "results.json"
README = HERE / "README.md"
START = "<!-- The tables below are written by `python -m pytest -m clients --record`. -->\n"

DECODER_TYPES = "decoder types"
"""The kind of the sweep over all decoders. The table has a row for those that work, and one for each that does not."""

PAIRS = "types for "
"""The start of the kinds of the sweep over other pairs: `types for fill-mask`. They have rows in the same way."""

NOT = swept.NOT

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "transformers.js": "transformers.js in Node.js",
        "web": "transformers.js in Chromium",
        "genai": "onnxruntime-genai",
        "optimum": "ORTModel and sentence-transformers",
        "fastembed": "fastembed",
        "onnx": "onnx.reference",
    }
)
"""The clients in the order of the tables."""


def recorded() -> dict[str, Any]:
    """The content of `results.json`."""
    return json.loads(FILE.read_text()) if FILE.is_file() else {}


def record(client: str, kind: str, case: str, line: str) -> None:
    """Writes a line for a case. Lines of other versions of the client are dropped."""
    with swept.locked("clients"):
        every = recorded()
        pins = versions(PROGRAMS[client][0])
        before = every.get(client, {})
        results = before.get("results", {}) if before.get("versions") == pins else {}
        results = {**results, kind: {**results.get(kind, {}), case: line}}
        header = {"versions": pins, "date": dt.datetime.now(tz=dt.UTC).date().isoformat(), "commit": swept.commit()}
        every[client] = {**header, "results": {name: dict(sorted(lines.items())) for name, lines in results.items()}}
        FILE.write_text(json.dumps({name: every[name] for name in TITLES if name in every}, indent=1) + "\n")
        README.write_text(readme(README.read_text(), every))


def line_of(note: Mapping[str, Any], error: str) -> str:
    """The line of a case, from what its test noted, and its error or ""."""
    flags = f", with `{' '.join(note['flags'])}`" if note.get("flags") else ""
    if error:
        return f"{NOT}{error}{flags}"
    difference = f", max abs diff {note['difference']:.0e}" if note.get("difference") else ""
    return f"works{difference}{flags}"


def readme(text: str, every: Mapping[str, Any]) -> str:
    """The text of README.md with the tables of some results."""
    return text.partition(START)[0] + START + "\n" + "\n".join(_lines(every)).rstrip() + "\n"


def _lines(every: Mapping[str, Any]) -> Iterator[str]:
    for client, title in TITLES.items():
        if client in every:
            yield from _table(title, every[client])


def _table(title: str, seen: Mapping[str, Any]) -> Iterator[str]:
    rows = [(kind, case, line) for kind, cases in seen["results"].items() for case, line in cases.items()]
    many = [kind for kind in seen["results"] if kind == DECODER_TYPES or kind.startswith(PAIRS)]
    good = {kind: [case for each, case, line in rows if each == kind and not line.startswith(NOT)] for kind in many}
    shown = [row for row in rows if row[1] not in good.get(row[0], ())]
    shown += [(_numbered(len(cases), kind), ", ".join(cases), "works") for kind, cases in good.items() if cases]
    yield f"## {title}\n"
    yield f"{_counts(seen['results'], many)} work. {seen['versions']}; {seen['date']}, `{seen['commit']}`.\n"
    yield "| kind | model | result |\n| --- | --- | --- |"
    yield from (f"| {kind} | {case} | {line.replace('|', '/')} |" for kind, case, line in shown)
    yield ""


def _numbered(number: int, kind: str) -> str:
    """A number with the plural or the singular of a kind: `1 type for image-to-text`."""
    return f"{number} {kind if number != 1 else kind.replace('types', 'type', 1)}"


def _counts(results: Mapping[str, Mapping[str, str]], many: Collection[str]) -> str:
    """How many of the cases work, by kind for those of sweeps: `57 of 59 decoder types, 29 of 30 other cases`."""
    others = {
        f"{kind}/{case}": line for kind, cases in results.items() if kind not in many for case, line in cases.items()
    }
    sweeps = {kind: results[kind] for kind in many if not kind.startswith(PAIRS)}
    pairs = {f"{kind}/{case}": line for kind in {*many} - {*sweeps} for case, line in results[kind].items()}
    tables = {**sweeps, "pairs of a type and a task": pairs, "other cases" if many else "cases": others}
    return ", ".join(
        f"{sum(not line.startswith(NOT) for line in lines.values())} of {len(lines)} {kind}"
        for kind, lines in tables.items()
        if lines
    )
