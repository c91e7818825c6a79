"""What does ONNX Runtime take to load a decoder's graph, to read a prompt of 128 tokens, and for each token after it?

    python benchmarks/decode.py [--runs 5] [--models smollm2] [--graphs FOLDER]

All graphs are float32, run by one process in one ONNX Runtime, each in its turn in every round; each must answer as
PyTorch does, and write the same tokens, before it is timed. What a graph keeps goes back into it without a copy.
`--graphs` is a folder of graphs from an earlier run: those that are there are not exported again.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from answers import disagreement, expected, fed, role, session, text
from attrs import frozen
from figures import Required, median, published, ratio
from models import Checkpoint
from options import able, told
from peers import Exporter, exported

PROMPT, TOKENS, PROMPTS = 128, 32, 3
EXPORTERS = "onnxfn,onnxfn fused,onnxfn opset 23,optimum,transformers.exporters,genai builder,mobius,mobius cpu"
REQUIRED = (
    ("onnxfn opset 23", "optimum", "token", 0.9),
    ("onnxfn opset 23", "optimum", "prompt", 1.0),
    ("onnxfn", "optimum", "prompt", 1.0),
    ("onnxfn fused", "genai builder", "token", 1.0),
)


@frozen
class Timed:
    """One turn of a graph: seconds to load it, for a prompt, and for a token."""

    load: float
    prompt: float
    token: float


def graphs(one: Checkpoint, hows: list[Exporter], place: Path, cache: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The file of each exporter, and why there is none."""
    files, problems = {}, {}
    for how in hows:
        out = place / one.name / how.name.replace(" ", "-")
        problem = None
        if not (out / "model.onnx").is_file():
            shutil.rmtree(out, ignore_errors=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            done = exported(how, one, out, cache)
            problem = f"cannot: {done.last_words}" if done.code else None
        problem = problem or disagreement(one, out, cache)
        print(f"{one.name}, {how.name}: {problem or 'answers as PyTorch does'}", file=sys.stderr)
        if problem:
            problems[how.name] = problem
        else:
            files[how.name] = out / "model.onnx"
    return files, problems


def timed(file: Path, known: dict[str, Any]) -> Timed:
    """A turn of one graph: loaded, prompts read, and tokens written after the last of them."""
    gc.collect()
    start = time.perf_counter()
    graph = session(file)
    load = time.perf_counter() - start
    ids = np.arange(5, 5 + PROMPT, dtype=np.int64)[None]
    _step(graph, known, ids, PROMPT, {})
    prompts = []
    for _ in range(PROMPTS):
        start = time.perf_counter()
        kept, _ = _step(graph, known, ids, PROMPT, {})
        prompts.append(time.perf_counter() - start)
    tokens = []
    for place in range(TOKENS):
        start = time.perf_counter()
        kept, _ = _step(graph, known, ids[:, :1], PROMPT + 1 + place, kept)
        tokens.append(time.perf_counter() - start)
    return Timed(load, statistics.median(prompts), statistics.median(tokens))


def _step(graph: Any, known: dict[str, Any], new: Any, length: int, kept: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What a graph keeps after new tokens, by the names it takes it under, and what it says of them."""
    import onnxruntime

    told = {name: made for name, made in known.items() if name == "head_dim"}
    empty = fed(graph, {**text(new, length), **told, **{role(name): np.zeros(0) for name in kept}})
    feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(made) for name, made in empty.items() if name not in kept}
    names = [one.name for one in graph.get_outputs()]
    given = graph.run_with_ort_values(names, {**feeds, **kept})
    made = {role(name): value for name, value in zip(names, given, strict=True)}
    return {name: made[role(name)] for name in empty if role(name).startswith("cache.")}, made["logits"]


def main() -> None:
    question = __doc__.splitlines()[0]
    asked = told(question, "decode", "smollm2", EXPORTERS, graphs=Path)
    rows, required = [], []
    with tempfile.TemporaryDirectory(dir=asked.peers) as temporary:
        for one in asked.checkpoints:
            files, problems = graphs(one, able(asked.exporters, one), asked.graphs or Path(temporary), asked.peers)
            known = expected(one, asked.peers)
            turns: dict[str, list[Timed]] = {name: [] for name in files}
            for _ in range(asked.runs):
                for name, file in files.items():
                    turns[name].append(timed(file, known))
            rows.extend(row(one, name, turns) for name in files)
            rows.extend({"model": one.name, "graph of": name, "problem": why} for name, why in problems.items())
            required.extend(
                Required(f"{one.name}: {what} of {ours} / {theirs}", _ratio(turns, ours, theirs, what), limit)
                for ours, theirs, what, limit in REQUIRED
            )
    published("decode", rows, required, asked.json, runs=asked.runs)


def row(one: Checkpoint, name: str, turns: dict[str, list[Timed]]) -> dict[str, Any]:
    figures = {what: [getattr(turn, what) for turn in turns[name]] for what in ("load", "prompt", "token")}
    return {
        "model": one.name,
        "graph of": name,
        "load s": median(figures["load"]),
        f"prompt of {PROMPT} ms": _thousand(median(figures["prompt"])),
        "token ms": _thousand(median(figures["token"])),
        "prompt: onnxfn / it": _ratio(turns, "onnxfn", name, "prompt"),
        "token: onnxfn / it": _ratio(turns, "onnxfn", name, "token"),
        "token: fused / it": _ratio(turns, "onnxfn fused", name, "token"),
    }


def _ratio(turns: dict[str, list[Timed]], ours: str, theirs: str, what: str) -> float | None:
    here, there = ([getattr(turn, what) for turn in turns.get(name, [])] for name in (ours, theirs))
    return ratio(here, there)


def _thousand(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


if __name__ == "__main__":
    main()
