"""Seconds, memory and bytes on disk of the export of a checkpoint, as a whole process.

    python benchmarks/export_whole.py [--runs 5] [--models minilm,smollm2,...] [--without "transformers.exporters"]

In each round every exporter runs once. The files of the first round must agree with PyTorch, else the exporter has no
figures. onnxfn and Optimum check their exports; "onnxfn unchecked" and the other peers do not.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from answers import difference
from attrs import frozen
from figures import Required, median, print_and_save, ratio
from models import Checkpoint, checkpoint_folder, parameter_bytes
from options import exporters_for, parsed_options
from peers import Exporter, interpreter, run_exporter
from processes import Process

GB = 1e9
MODELS = "minilm,smollm2,vit-base,t5-small,whisper-tiny"
TIME_LIMITS = (
    ("smollm2", "onnxfn", "optimum", 0.6),
    ("smollm2", "onnxfn unchecked", "transformers.exporters", 0.12),
    ("smollm2", "onnxfn unchecked", "genai builder", 1.5),
    ("smollm2", "onnxfn templates", "genai builder", 0.6),
)
"""Model, exporter, peer, and the largest ratio of their times."""

SIZE_LIMIT = 1.01
"""The largest ratio of the bytes on disk to the bytes of the parameters."""


@frozen
class Measured:
    """The runs of an exporter on a checkpoint, the bytes of its files, and why it has no figures, if it has none."""

    runs: tuple[Process, ...] = ()
    disk: int = 0
    problem: str | None = None


def measure(checkpoint: Checkpoint, exporters: list[Exporter], rounds: int, cache: Path) -> dict[str, Measured]:
    """Runs all exporters on a checkpoint, round by round; the results by exporter. Prints each run to stderr."""
    results = {exporter.name: Measured() for exporter in exporters}
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for round_ in range(rounds):
            for exporter in exporters:
                if results[exporter.name].problem is None:
                    result = _run_once(exporter, checkpoint, Path(folder), cache, is_first=round_ == 0)
                    results[exporter.name] = Measured(
                        (*results[exporter.name].runs, *result.runs), result.disk, result.problem
                    )
                    print(f"{checkpoint.name}, {exporter.name}: {_run_text(result)}", file=sys.stderr)
    return results


def _run_once(exporter: Exporter, checkpoint: Checkpoint, folder: Path, cache: Path, *, is_first: bool) -> Measured:
    """One run of an exporter. The files of the first run are compared with PyTorch."""
    out = folder / "out"
    for _ in range(2 if exporter.twice and is_first else 1):
        shutil.rmtree(out, ignore_errors=True)
        run = run_exporter(exporter, checkpoint, out, cache)
    return Measured((run,), graph_bytes(out), problem_of(run, checkpoint, out, cache, compare=is_first))


def problem_of(run: Process, checkpoint: Checkpoint, out: Path, cache: Path, *, compare: bool) -> str | None:
    """Why a run has no figures: the exporter failed, or its files differ from PyTorch; None if it has figures."""
    if run.code:
        return f"cannot: {run.error_line}"
    differs = difference(checkpoint, out, cache) if compare else None
    return f"wrong: {differs}" if differs else None


def _run_text(result: Measured) -> str:
    run = result.runs[-1]
    return result.problem or f"{run.seconds:.1f} s, {run.cpu_seconds:.1f} s of processors"


def graph_bytes(folder: Path) -> int:
    """The bytes of the graphs and weights in a folder."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if ".onnx" in file.name or file.suffix in {".data", ".bin"})


def row(checkpoint: Checkpoint, name: str, results: Mapping[str, Measured], parameters: int) -> dict[str, Any]:
    """The row of an exporter in the table."""
    result = results[name]
    if result.problem:
        return {"model": checkpoint.name, "exporter": name, "problem": result.problem}
    return {
        "model": checkpoint.name,
        "exporter": name,
        "seconds": median(seconds(result)),
        "work": median([run.cpu_seconds for run in result.runs]),
        "onnxfn / it": ratio(seconds(results.get("onnxfn")), seconds(result)),
        "unchecked / it": ratio(seconds(results.get("onnxfn unchecked")), seconds(result)),
        "resident GB": median([run.resident / GB for run in result.runs]),
        "anonymous GB": median([run.anonymous / GB for run in result.runs]),
        "disk / parameters": result.disk / parameters,
    }


def seconds(result: Measured | None) -> list[float]:
    """The seconds of each run; empty if there are no figures."""
    return [run.seconds for run in result.runs] if result and not result.problem else []


def required(results: Mapping[str, Mapping[str, Measured]], parameters: Mapping[str, int]) -> list[Required]:
    """The requirements on times and sizes."""
    times = [
        Required(
            f"{model}: time of {ours} / {theirs}",
            ratio(seconds(results[model].get(ours)), seconds(results[model].get(theirs))),
            limit,
        )
        for model, ours, theirs, limit in TIME_LIMITS
        if model in results
    ]
    sizes = [
        Required(f"{model}, onnxfn: bytes on disk / bytes of parameters", result.disk / parameters[model], SIZE_LIMIT)
        for model, by_exporter in results.items()
        if (result := by_exporter.get("onnxfn")) is not None and not result.problem
    ]
    return [*times, *sizes]


def main() -> None:
    options = parsed_options(__doc__.splitlines()[0], "export_whole", MODELS)
    for exporter in options.exporters:
        interpreter(exporter.environment, options.cache)
    results, parameters, rows = {}, {}, []
    for checkpoint in options.checkpoints:
        parameters[checkpoint.name] = parameter_bytes(checkpoint_folder(checkpoint, options.cache))
        exporters = exporters_for(checkpoint, options.exporters)
        measured = measure(checkpoint, exporters, options.runs, options.cache)
        results[checkpoint.name] = measured
        rows.extend(row(checkpoint, name, measured, parameters[checkpoint.name]) for name in measured)
    print_and_save("export_whole", rows, required(results, parameters), options.json, runs=options.runs)


if __name__ == "__main__":
    main()
