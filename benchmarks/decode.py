"""Seconds of ONNX Runtime to load a decoder's graph, for a prompt of 512 tokens, and for each token after it.

    python benchmarks/decode.py [--runs 5] [--models smollm2] [--graphs FOLDER]

All graphs are float32. They are in memory at the same time, and the same threads of one process run them. They take
turns, prompt by prompt and token by token, in a random order, so a disturbance of one disturbs the others. Every round
loads them again, in a random order. Each graph must agree with PyTorch and decode the same tokens before it is timed.
The cache goes from the outputs back to the inputs without a copy. `--graphs` is a folder of graphs of an earlier run;
these are not exported again.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from answers import difference, expected_arrays, feeds, role, session, share_threads, token_arrays
from attrs import frozen
from figures import Required, median, print_and_save, ratio
from models import Checkpoint
from options import exporters_for, parsed_options
from peers import Exporter, run_exporter

PROMPT, TOKENS, PROMPTS = 512, 32, 3
EXPORTERS = "onnxfn,onnxfn opset 18,optimum,transformers.exporters,genai builder,mobius,mobius cpu"
LIMITS = (
    ("onnxfn", "optimum", "token", 0.76),
    ("onnxfn", "genai builder", "token", 0.98),
    ("onnxfn", "optimum", "prompt", 0.9),
)
"""Exporter, peer, what is timed, and the largest ratio of their times."""


@frozen
class Timed:
    """A round of one graph: the seconds to load it, for each prompt, and for each token."""

    load: list[float]
    prompt: list[float]
    token: list[float]


Rounds = Mapping[str, list[Timed]]
"""From an exporter to the rounds of its graph."""


def export_graphs(
    checkpoint: Checkpoint, exporters: list[Exporter], folder: Path, cache: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    """Exports a checkpoint with each exporter: the files, and the problems of exporters without a correct file."""
    files, problems = {}, {}
    for exporter in exporters:
        out = folder / checkpoint.name / exporter.name.replace(" ", "-")
        problem = _export(exporter, checkpoint, out, cache) or difference(checkpoint, out, cache)
        print(f"{checkpoint.name}, {exporter.name}: {problem or 'agrees with PyTorch'}", file=sys.stderr)
        if problem:
            problems[exporter.name] = problem
        else:
            files[exporter.name] = out / "model.onnx"
    return files, problems


def _export(exporter: Exporter, checkpoint: Checkpoint, out: Path, cache: Path) -> str | None:
    """Exports a checkpoint unless its file exists; returns the problem if there is one."""
    if (out / "model.onnx").is_file():
        return None
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    run = run_exporter(exporter, checkpoint, out, cache)
    return f"cannot: {run.error_line}" if run.code else None


def timed_round(
    files: Mapping[str, Path], expected: Mapping[str, Any], random: np.random.Generator
) -> dict[str, Timed]:
    """A round: all graphs are loaded, then they take turns with prompts, then with the tokens after the last prompt."""
    gc.collect()
    timed = {name: Timed([], [], []) for name in files}
    graphs, caches = {}, {}
    names = list(files)
    for name in random.permutation(names):  # the memory that a graph gets depends on the graphs before it
        start = time.perf_counter()
        graphs[name] = session(files[name], own_threads=False)
        timed[name].load.append(time.perf_counter() - start)
    ids = np.arange(5, 5 + PROMPT, dtype=np.int64)[None]
    for turn in range(1 + PROMPTS):
        for name in random.permutation(names):
            caches[name], seconds = run_step(graphs[name], expected, ids, PROMPT, {})
            timed[name].prompt.extend([seconds] if turn else [])  # the first prompt is a warm-up
    for turn in range(TOKENS):
        for name in random.permutation(names):
            caches[name], seconds = run_step(graphs[name], expected, ids[:, :1], PROMPT + 1 + turn, caches[name])
            timed[name].token.append(seconds)
    return timed


def run_step(
    graph: Any, expected: Mapping[str, Any], new_tokens: Any, length: int, cache: Mapping[str, Any]
) -> tuple[dict[str, Any], float]:
    """Runs a graph on new tokens; returns its cache, by the names of its inputs, and the seconds."""
    import onnxruntime

    constant = {name: array for name, array in expected.items() if name == "head_dim"}
    in_cache = {role(name): np.zeros(0) for name in cache}
    arrays = feeds(graph, {**token_arrays(new_tokens, length), **constant, **in_cache})
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items() if name not in cache
    }
    names = [output.name for output in graph.get_outputs()]
    start = time.perf_counter()
    outputs = graph.run_with_ort_values(names, {**values, **cache})
    seconds = time.perf_counter() - start
    by_role = {role(name): value for name, value in zip(names, outputs, strict=True)}
    return {name: by_role[role(name)] for name in arrays if role(name).startswith("cache.")}, seconds


def row(checkpoint: Checkpoint, name: str, rounds: Rounds) -> dict[str, Any]:
    """The row of an exporter in the table."""
    return {
        "model": checkpoint.name,
        "graph of": name,
        "load s": median(_seconds(rounds, name, "load")),
        f"prompt of {PROMPT} ms": _milliseconds(median(_seconds(rounds, name, "prompt"))),
        "token ms": _milliseconds(median(_seconds(rounds, name, "token"))),
        "prompt: onnxfn / it": _ratio(rounds, "onnxfn", name, "prompt"),
        "token: onnxfn / it": _ratio(rounds, "onnxfn", name, "token"),
    }


def _ratio(rounds: Rounds, ours: str, theirs: str, what: str) -> float | None:
    return ratio(*(_seconds(rounds, name, what) for name in (ours, theirs)))


def _seconds(rounds: Rounds, name: str, what: str) -> list[float]:
    """All times of an exporter's graph: `load`, `prompt` or `token`."""
    return [seconds for timed in rounds.get(name, []) for seconds in getattr(timed, what)]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def main() -> None:
    share_threads()
    options = parsed_options(__doc__.splitlines()[0], "decode", "smollm2", EXPORTERS, graphs=Path)
    rows, required = [], []
    with tempfile.TemporaryDirectory(dir=options.cache) as temporary:
        for checkpoint in options.checkpoints:
            exporters = exporters_for(checkpoint, options.exporters)
            folder = options.graphs or Path(temporary)
            files, problems = export_graphs(checkpoint, exporters, folder, options.cache)
            expected = expected_arrays(checkpoint, options.cache)
            random = np.random.default_rng(0)
            by_round = [timed_round(files, expected, random) for _ in range(options.runs)]
            rounds = {name: [timed[name] for timed in by_round] for name in files}
            rows.extend(row(checkpoint, name, rounds) for name in files)
            rows.extend({"model": checkpoint.name, "graph of": name, "problem": why} for name, why in problems.items())
            required.extend(
                Required(f"{checkpoint.name}: {what} of {ours} / {theirs}", _ratio(rounds, ours, theirs, what), limit)
                for ours, theirs, what, limit in LIMITS
            )
    print_and_save("decode", rows, required, options.json, runs=options.runs)


if __name__ == "__main__":
    main()
