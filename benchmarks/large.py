"""Time and memory of the export of 1.1 billion parameters, next to those of its imports and of copying its weights.

    python benchmarks/large.py [--runs 3] [--exporters "onnxfn unchecked,onnxfn,..."]

In each round a process imports what an export imports and does nothing else, the weights are copied once, and every
exporter runs once. Anonymous memory is counted above that of the imports. The time of an export is compared with
imports + graph + 1.5 times the copying. The files of the first round must agree with PyTorch.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export_whole import GB, Measured, graph_bytes, problem_of
from figures import Required, median, print_and_save, ratio
from models import CHECKPOINTS, Checkpoint, checkpoint_folder, parameter_bytes
from options import parsed_options
from peers import EXPORTERS, NO_PYTHONPATH, OURS, Exporter, interpreter, run_exporter
from processes import Process, run_process

STAGE = re.compile(r"^(\w+)\b.*: ([\d.]+) s$", re.MULTILINE)
"""A line of onnxfn's command line: a stage and its seconds."""

GRAPH_STAGES = ("template", "capture", "passes")

RECORD_MODULES = """
import atexit, runpy, sys
file = sys.argv.pop(1)
atexit.register(lambda: open(file, "w").write("\\n".join(sys.modules)))
runpy.run_module("onnxfn", run_name="__main__", alter_sys=True)
"""
IMPORT_MODULES = """
import importlib, sys
for name in open(sys.argv[1]).read().split():
    try:
        importlib.import_module(name)
    except Exception:
        pass
"""
MEMORY_LIMIT, COPIES = 1.2 * GB, 1.5


def module_list(folder: Path, cache: Path) -> Path:
    """Writes the names of all modules that the export of a tiny model of the same type imports; returns the file."""
    tiny, names = CHECKPOINTS["llama-tiny"], folder / "modules.txt"
    exporter = EXPORTERS["onnxfn unchecked"]
    arguments = exporter.command(tiny, checkpoint_folder(tiny, cache), folder / "tiny", folder)[2:]
    process = run_process([str(interpreter(OURS, cache)), "-c", RECORD_MODULES, str(names), *arguments], NO_PYTHONPATH)
    assert process.code == 0, process.output
    return names


def copy_seconds(file: Path, folder: Path) -> float:
    """Copies a file; returns the seconds."""
    start = time.perf_counter()
    shutil.copyfile(file, folder / "copy")
    seconds = time.perf_counter() - start
    (folder / "copy").unlink()
    return seconds


def graph_seconds(run: Process) -> float:
    """The seconds in which onnxfn built the graph, from its output."""
    return sum(float(seconds) for stage, seconds in STAGE.findall(run.output) if stage in GRAPH_STAGES)


def measure(
    checkpoint: Checkpoint, exporters: list[Exporter], rounds: int, cache: Path
) -> tuple[list[Process], list[float], dict[str, Measured]]:
    """Runs the imports, the copy and every exporter, round by round."""
    imports: list[Process] = []
    copies: list[float] = []
    results = {exporter.name: Measured() for exporter in exporters}
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        folder = Path(temporary)
        names = module_list(folder, cache)
        for _ in range(rounds):
            command = [str(interpreter(OURS, cache)), "-c", IMPORT_MODULES, str(names)]
            imports.append(run_process(command, NO_PYTHONPATH))
            copies.append(copy_seconds(checkpoint_folder(checkpoint, cache) / "model.safetensors", folder))
            for exporter in exporters:
                if results[exporter.name].problem is None:
                    results[exporter.name] = _with_run(results[exporter.name], exporter, checkpoint, folder, cache)
    return imports, copies, results


def _with_run(before: Measured, exporter: Exporter, checkpoint: Checkpoint, folder: Path, cache: Path) -> Measured:
    """The results with one more run. The files of the first run are compared with PyTorch."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    run = run_exporter(exporter, checkpoint, out, cache)
    print(f"{exporter.name}: {run.seconds:.1f} s, {run.anonymous / GB:.2f} GB", file=sys.stderr)
    problem = problem_of(run, checkpoint, out, cache, compare=not before.runs)
    return Measured((*before.runs, run), graph_bytes(out), problem)


def row(name: str, runs: Sequence[Process], imports: list[Process], copies: list[float]) -> dict[str, Any]:
    """The row of an exporter in the table. Some figures are known for onnxfn alone: only it prints its stages."""
    figures = {
        "exporter": name,
        "seconds": median([run.seconds for run in runs]),
        "imports s": median([imported.seconds for imported in imports]),
        "graph s": None,
        "copying s": median(copies),
        "work s": median([run.cpu_seconds for run in runs]),
        "anonymous GB": median([run.anonymous / GB for run in runs]),
        "resident GB": median([run.resident / GB for run in runs]),
    }
    return figures | (_own_figures(runs, imports, copies) if EXPORTERS[name].environment == OURS else {})


def _own_figures(runs: Sequence[Process], imports: list[Process], copies: list[float]) -> dict[str, Any]:
    """The figures that only onnxfn has."""
    above = [run.anonymous - imported.anonymous for run, imported in zip(runs, imports, strict=True)]
    ideal = [
        imported.seconds + graph_seconds(run) + COPIES * copy
        for run, imported, copy in zip(runs, imports, copies, strict=True)
    ]
    return {
        "graph s": median([graph_seconds(run) for run in runs]),
        "last stages": ", ".join(f"{stage} {seconds}" for stage, seconds in STAGE.findall(runs[-1].output)),
        f"seconds / (imports + graph + {COPIES} copying)": ratio([run.seconds for run in runs], ideal),
        "above imports GB": median([bytes_ / GB for bytes_ in above]),
    }


def required(model: str, rows: list[dict[str, Any]]) -> list[Required]:
    """The requirements on memory and time."""
    ours = next((figures for figures in rows if figures["exporter"] == "onnxfn unchecked"), {})
    limits = {"above imports GB": MEMORY_LIMIT / GB, f"seconds / (imports + graph + {COPIES} copying)": 1.0}
    return [Required(f"{model}, unchecked: {name}", ours.get(name), limit) for name, limit in limits.items()]


def main() -> None:
    options = parsed_options(__doc__.splitlines()[0], "large", "llama-1b", "onnxfn unchecked,onnxfn")
    (checkpoint,) = options.checkpoints
    imports, copies, results = measure(checkpoint, options.exporters, options.runs, options.cache)
    parameters = parameter_bytes(checkpoint_folder(checkpoint, options.cache))
    rows = [
        {"exporter": name, "problem": result.problem}
        if result.problem
        else row(name, result.runs, imports, copies) | {"disk / parameters": result.disk / parameters}
        for name, result in results.items()
    ]
    print_and_save("large", rows, required(checkpoint.name, rows), options.json, runs=options.runs)


if __name__ == "__main__":
    main()
