"""What the runs of clients showed: `results.json`.

`results.json` holds {client: {"versions", "date", "commit", "results": {kind: {case: line}}}}. A line that starts with
`not: ` says why a case does not work.
"""

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import swept
from client_environments import versions
from running import PROGRAMS

HERE = Path(__file__).parent
FILE = HERE / "results.json"

DECODER_TYPES = "decoder types"
"""The kind of the sweep over all decoders."""

PAIRS = "types for "
"""The start of the kinds of the sweep over other pairs: `types for fill-mask`."""

NOT = swept.NOT

CLIENTS = ("transformers.js", "web", "webgpu", "genai", "optimum", "fastembed", "onnx", "openvino")
"""The clients in the order of the file."""


def recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text()) if FILE.is_file() else {}


def has_result(client: str, kind: str, case: str) -> bool:
    return case in recorded().get(client, {}).get("results", {}).get(kind, {})


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
        FILE.write_text(json.dumps({name: every[name] for name in CLIENTS if name in every}, indent=1) + "\n")


def shortened(error: Exception) -> str:
    """The last line of an error, shortened."""
    return (str(error).strip() or repr(error)).splitlines()[-1][:200]


def line_of(note: Mapping[str, Any], error: str) -> str:
    """The line of a case, from what its test noted, and its error or ""."""
    flags = f", with `{' '.join(note['flags'])}`" if note.get("flags") else ""
    if error:
        return f"{NOT}{error}{flags}"
    difference = f", max abs diff {note['difference']:.0e}" if note.get("difference") else ""
    return f"works{difference}{flags}"
