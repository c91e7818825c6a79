"""Seconds of the export of models of real sizes, onnxfn and Optimum, both with their check.

    python benchmarks/export_real.py [--runs 3] [--models resnet-50,vits] [--left] [--only warm] [--json FILE]

Warm: each exporter has a process that has exported a small model. In each round a model is exported by onnxfn and then
by Optimum. Whole: in each round each runs as a process of its command line. `--only` measures one of the two. The row
of a model is saved when it is measured, and rows of other models stay as they are; `--left` measures the models without
a figure. A row tells how many cores other processes used meanwhile: with more than 0.1 the machine was not quiet.
"whole imports s" is a process that only imports: the class of the model, torch.export, onnxscript's translations and
onnxruntime. No exporter that traces and checks with them is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from figures import RESULTS, Required, median, print_and_save, ratio, save
from models import CACHE, Checkpoint
from peers import EXPORTERS, HERE, NO_PYTHONPATH, OURS, interpreter
from processes import OFFLINE, Process, run_process
from real_sized import REAL_SIZED, WARM_UP
from warm_exports import EXPORTS, LIMIT

SLOW = 15.0
"""Seconds of a round after which a model has no further round."""

SLOW_PROCESSES = 30.0
"""The same for whole processes, whose imports take half of these seconds."""

MEDIAN_LIMIT, LARGEST_LIMIT, WHOLE_LIMIT = 1.1, 6.0, 0.85
"""The largest ratios of times: of warm exports in the median, of any warm export, of whole processes in the median."""

NEWER = 1e-5
"""The largest part of a model that is a buffer in transformers 4.57 and a parameter in 5: SAM has 256 such numbers."""

IMPORTS = """
import gc, sys
gc.set_threshold(1_000_000)
import transformers
getattr(transformers, transformers.AutoConfig.from_pretrained(sys.argv[1]).architectures[0])
import torch._dynamo, torch.export, onnxscript.function_libs.torch_lib.ops, onnxruntime
"""
"""A program that imports what an export and its check need, with the settings of onnxfn's command line."""

Row = dict[str, Any]
"""The figures of a model."""

Workers = dict[str, subprocess.Popen[str]]
"""From the name of an exporter to its warm process."""


def warm_row(workers: Workers, model: str, runs: int, cache: Path) -> Row:
    """The figures of a model in warm processes: the medians of the rounds, and the medians of the ratios of pairs."""
    rounds: list[dict[str, Row]] = []
    for _ in range(runs):
        rounds.append({name: warm_figures(workers, name, model, cache) for name in EXPORTS})
        figures = rounds[-1].values()
        print(f"{model}: {rounds[-1]}", file=sys.stderr)
        if any("problem" in each for each in figures) or sum(each["seconds"] for each in figures) > SLOW:
            break
    problems = {
        name: f"{name} {each[name]['problem']}" for each in rounds for name in EXPORTS if "problem" in each[name]
    }
    sizes = {figures.get("parameters") for each in rounds for figures in each.values() if "parameters" in figures}
    largest, smallest = max(sizes, default=0), min(sizes, default=0)
    assert largest - smallest <= NEWER * largest, f"{model} has {sizes} parameters in two versions of transformers"
    row: Row = {"parameters": max(sizes, default=None)}
    for key, suffix in (("seconds", "s"), ("work", "work")):
        taken = {name: [each[name][key] for each in rounds if key in each[name]] for name in EXPORTS}
        row |= {f"{name} {suffix}": median(figures) for name, figures in taken.items()}
        row["ratio" if key == "seconds" else "work ratio"] = None if problems else ratio(*taken.values())
    others = [figures["others"] for each in rounds for figures in each.values() if "others" in figures]
    return {**row, "others": max(others, default=None), "date": today(), "problem": "; ".join(problems.values())}


def warm_figures(workers: Workers, name: str, model: str, cache: Path) -> Row:
    """The answer of an exporter's process. A process that has ended is replaced by another, which warms up."""
    if name not in workers or workers[name].poll() is not None:
        workers[name] = _started(name, cache)
        answer(workers[name], WARM_UP)
    return answer(workers[name], model)


def answer(process: subprocess.Popen[str], model: str) -> Row:
    """What a process answers to the name of a model; a problem if it ends instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{model}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return json.loads(line) if line else {"problem": f"cannot: ends with {process.wait()}, limit {LIMIT} s"}


def _started(name: str, cache: Path) -> subprocess.Popen[str]:
    """A process that exports models. onnxfn is that of this checkout; its peer has an environment of its own."""
    ours = name == OURS
    python = sys.executable if ours else interpreter(name, cache)
    variables = {**os.environ, **OFFLINE, **({} if ours else NO_PYTHONPATH)}
    return subprocess.Popen(
        [str(python), str(HERE / "warm_exports.py"), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=variables,
    )


@contextmanager
def warm_processes() -> Iterator[Workers]:
    """A table for warm processes, which end with it."""
    workers: Workers = {}
    try:
        yield workers
    finally:
        for process in workers.values():
            process.kill()


def whole_row(model: str, runs: int, cache: Path) -> Row:
    """The figures of a model as processes of the command lines. Each reads a checkpoint that its transformers wrote.

    They are medians of the rounds. The first round also reads the files of both environments from the disk.
    """
    seconds: dict[str, list[float]] = {name: [] for name in EXPORTS}
    imports: list[float] = []
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for name in EXPORTS:
            (Path(folder) / name).mkdir()
        for round_ in range(runs):
            for name in (each for each in EXPORTS if each not in problems):
                run = _whole_run(model, name, Path(folder) / name, cache)
                print(f"{model}, {name}: {run.error_line if run.code else run.seconds}", file=sys.stderr)
                if run.code:
                    problems[name] = f"{name} cannot: {run.error_line}"
                else:
                    seconds[name].append(run.seconds)
            if OURS not in problems:
                command = [interpreter(OURS, cache), "-c", IMPORTS, Path(folder) / OURS / "model"]
                alone = run_process(command, NO_PYTHONPATH)
                assert not alone.code, alone.error_line
                imports.append(alone.seconds)
                print(f"{model}, imports: {alone.seconds}", file=sys.stderr)
            if sum(taken[round_] for taken in seconds.values() if len(taken) > round_) > SLOW_PROCESSES:
                break
    return {
        **{f"whole {name} s": median(taken) for name, taken in seconds.items()},
        "whole ratio": None if problems else ratio(*seconds.values()),
        "whole imports s": median(imports),
        "imports ratio": None if problems else ratio(imports, seconds["optimum"]),
        "whole date": today(),
        "whole problem": "; ".join(problems.values()),
    }


def _whole_run(model: str, name: str, folder: Path, cache: Path) -> Process:
    """A run of an exporter's command line on the checkpoint in a folder, which is written if it is not there."""
    python, checkpoint = interpreter(name, cache), folder / "model"
    if not checkpoint.is_dir():
        written = run_process([python, HERE / "real_sized.py", model, checkpoint], NO_PYTHONPATH)
        if written.code:
            return written
    facts = Checkpoint(model, REAL_SIZED[model].task, "", _written_by_interpreter)
    with tempfile.TemporaryDirectory(dir=folder) as text:
        command = EXPORTERS[name].command(facts, checkpoint, Path(text) / "out", Path(text) / "kept")
        return run_process([python, *command], NO_PYTHONPATH)


def _written_by_interpreter(_: Path, __: Path) -> None:
    """Nothing: the checkpoint of a model of a real size is written by each exporter's interpreter."""


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def required(rows: Sequence[Mapping[str, Any]]) -> list[Required]:
    """The requirements on the ratios. Models that Optimum cannot export have none."""
    warm = [row["ratio"] for row in rows if row.get("ratio") is not None]
    whole = [row["whole ratio"] for row in rows if row.get("whole ratio") is not None]
    return [
        Required(f"{len(warm)} models of real sizes, warm: median of time / Optimum's", median(warm), MEDIAN_LIMIT),
        Required(
            f"{len(warm)} models of real sizes, warm: largest time / Optimum's", max(warm, default=None), LARGEST_LIMIT
        ),
        Required(f"{len(whole)} models of real sizes, whole: median of time / Optimum's", median(whole), WHOLE_LIMIT),
    ]


def saved_rows(file: Path) -> dict[str, Row]:
    """The rows of a file of results, by model."""
    return {row["model"]: row for row in json.loads(file.read_text())["rows"]} if file.is_file() else {}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=3, help="Rounds of each model; a slow model has one.")
    arguments.add_argument("--models", default=",".join(name for name in REAL_SIZED if name != WARM_UP))
    arguments.add_argument("--left", action="store_true", help="Leave out models that have the figures.")
    arguments.add_argument("--only", choices=("warm", "whole"))
    arguments.add_argument("--cache", type=Path, default=CACHE)
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_real.json")
    options = arguments.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    rows = saved_rows(options.json)
    with warm_processes() as workers:
        measures = {
            "warm": ("date", lambda model: warm_row(workers, model, options.runs, options.cache)),
            "whole": ("whole date", lambda model: whole_row(model, options.runs, options.cache)),
        }
        for model, (kind, (date, measured)) in product(options.models.split(","), measures.items()):
            row = rows.get(model, {"model": model, "kind": REAL_SIZED[model].kind})
            if options.only in (None, kind) and not (options.left and date in row):
                rows[model] = {**row, **measured(model)}
                save("export_real", ordered(rows), required(ordered(rows)), options.json, runs=options.runs)
    print_and_save("export_real", ordered(rows), required(ordered(rows)), options.json, runs=options.runs)


def ordered(rows: Mapping[str, Row]) -> list[Row]:
    """The rows in the order of the table of models."""
    return [rows[model] for model in REAL_SIZED if model in rows]


if __name__ == "__main__":
    main()
