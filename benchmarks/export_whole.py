"""What does it cost to export a checkpoint, as a whole process: seconds, memory, bytes on disk?

    python benchmarks/export_whole.py [--runs 5] [--models minilm,smollm2,...] [--without "transformers.exporters"]

In each round all exporters take their turn. What the first round writes must answer as PyTorch does, or no figure of
its exporter is printed. onnxfn and Optimum check what they export, "onnxfn unchecked" and the other peers do not.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from answers import disagreement
from attrs import frozen
from figures import Required, median, published, ratio
from models import Checkpoint, checkpoint_folder, parameter_bytes
from options import able, told
from peers import Exporter, exported, python
from processes import Process

GB = 1e9
MODELS = "minilm,smollm2,vit-base,t5-small,whisper-tiny"
FASTER = (
    ("smollm2", "onnxfn", "optimum", 0.6),
    ("smollm2", "onnxfn unchecked", "transformers.exporters", 0.12),
    ("smollm2", "onnxfn unchecked", "genai builder", 1.5),
    ("smollm2", "onnxfn templates", "genai builder", 0.6),
)
"""Which model, whose time, over whose, at most how much."""
SMALL = 1.01
"""Bytes on disk over bytes of the parameters, at most."""


@frozen
class Found:
    """What came of an exporter's runs on a checkpoint: each run and the bytes it left, or why there is no figure."""

    runs: tuple[Process, ...] = ()
    disk: int = 0
    problem: str | None = None


def measured(
    one: Checkpoint, hows: list[Exporter], rounds: int, cache: Path, tell: Callable[[str], None]
) -> dict[str, Found]:
    """Every exporter on a checkpoint, in turn."""
    found = {how.name: Found() for how in hows}
    with tempfile.TemporaryDirectory(dir=cache) as place:
        for turn in range(rounds):
            for how in [how for how in hows if found[how.name].problem is None]:
                done, disk, problem = _once(how, one, Path(place), cache, first=turn == 0)
                found[how.name] = Found((*found[how.name].runs, done), disk, problem)
                tell(f"{one.name}, {how.name}: {problem or f'{done.seconds:.1f} s, {done.work:.1f} s of work'}")
    return found


def _once(how: Exporter, one: Checkpoint, place: Path, cache: Path, *, first: bool) -> tuple[Process, int, str | None]:
    """One run, the bytes it left, and what is wrong with it; the first one's answers are held against PyTorch's."""
    out = place / "out"
    for _ in range(2 if how.twice and first else 1):
        shutil.rmtree(out, ignore_errors=True)
        done = exported(how, one, out, cache)
    wrong = disagreement(one, out, cache) if first and done.code == 0 else None
    return done, graph_bytes(out), f"cannot: {done.last_words}" if done.code else wrong and f"wrong: {wrong}"


def graph_bytes(folder: Path) -> int:
    """Bytes of graphs and weights."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if ".onnx" in file.name or file.suffix in {".data", ".bin"})


def row(one: Checkpoint, name: str, found: Mapping[str, Found], parameters: int) -> dict[str, Any]:
    here = found[name]
    if here.problem:
        return {"model": one.name, "exporter": name, "problem": here.problem}
    return {
        "model": one.name,
        "exporter": name,
        "seconds": median(seconds(here)),
        "work": median([run.work for run in here.runs]),
        "onnxfn / it": ratio(seconds(found.get("onnxfn")), seconds(here)),
        "unchecked / it": ratio(seconds(found.get("onnxfn unchecked")), seconds(here)),
        "resident GB": median([run.resident / GB for run in here.runs]),
        "anonymous GB": median([run.anonymous / GB for run in here.runs]),
        "disk / parameters": here.disk / parameters,
    }


def seconds(found: Found | None) -> list[float]:
    return [run.seconds for run in found.runs] if found and not found.problem else []


def required(all_found: Mapping[str, Mapping[str, Found]], parameters: Mapping[str, int]) -> list[Required]:
    faster = [
        Required(
            f"{model}: time of {ours} / {theirs}",
            ratio(seconds(all_found[model].get(ours)), seconds(all_found[model].get(theirs))),
            limit,
        )
        for model, ours, theirs, limit in FASTER
        if model in all_found
    ]
    small = [
        Required(f"{model}, onnxfn: bytes on disk / bytes of parameters", here.disk / parameters[model], SMALL)
        for model, found in all_found.items()
        if (here := found.get("onnxfn")) is not None and not here.problem
    ]
    return [*faster, *small]


def main() -> None:
    asked = told(__doc__.splitlines()[0], "export_whole", MODELS)
    for how in asked.exporters:
        python(how.peer, asked.peers)
    all_found, parameters, rows = {}, {}, []
    for one in asked.checkpoints:
        parameters[one.name] = parameter_bytes(checkpoint_folder(one, asked.peers))
        found = measured(
            one, able(asked.exporters, one), asked.runs, asked.peers, lambda said: print(said, file=sys.stderr)
        )
        all_found[one.name] = found
        rows.extend(row(one, name, found, parameters[one.name]) for name in found)
    published("export_whole", rows, required(all_found, parameters), asked.json, runs=asked.runs)


if __name__ == "__main__":
    main()
