"""What does ONNX Runtime take to load a decoder's graph, to read a prompt of 128 tokens, and for each token after it?

    python benchmarks/decode.py [--runs 5] [--models smollm2] [--graphs FOLDER]

All graphs are float32 and in memory at once, run by the same threads of one process: each reads a prompt in its turn,
and writes a token in its turn, so what disturbs one disturbs the others; whose turn it is is drawn. Every round loads
them anew, in an order that is drawn too. Each must answer as PyTorch does, and write the same tokens, before it is
timed. What a graph keeps goes back into it without a copy. `--graphs` is a folder of graphs of an earlier run:
those that are there are not exported again.
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
from answers import disagreement, expected, fed, role, session, share_threads, text
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
    """A round of one graph: seconds to load it, for each prompt, and for each token."""

    load: list[float]
    prompt: list[float]
    token: list[float]


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


def timed(files: Mapping[str, Path], known: dict[str, Any], drawn: np.random.Generator) -> dict[str, Timed]:
    """A round: all graphs are loaded, and then read prompts and write tokens after the last of them, turn by turn."""
    gc.collect()
    turns = {name: Timed([], [], []) for name in files}
    loaded, kept = {}, {}
    names = list(files)
    for name in drawn.permutation(names):  # which memory is left to a graph depends on those that came before
        start = time.perf_counter()
        loaded[name] = session(files[name], own_threads=False)
        turns[name].load.append(time.perf_counter() - start)
    ids = np.arange(5, 5 + PROMPT, dtype=np.int64)[None]
    for turn in range(1 + PROMPTS):
        for name in drawn.permutation(names):
            kept[name], seconds = _step(loaded[name], known, ids, PROMPT, {})
            turns[name].prompt.extend([seconds] if turn else [])  # the first is for nothing
    for turn in range(TOKENS):
        for name in drawn.permutation(names):
            kept[name], seconds = _step(loaded[name], known, ids[:, :1], PROMPT + 1 + turn, kept[name])
            turns[name].token.append(seconds)
    return turns


def _step(
    graph: Any, known: dict[str, Any], new: Any, length: int, kept: dict[str, Any]
) -> tuple[dict[str, Any], float]:
    """What a graph keeps after new tokens, by the names it takes it under, and the seconds that it took."""
    import onnxruntime

    told = {name: made for name, made in known.items() if name == "head_dim"}
    empty = fed(graph, {**text(new, length), **told, **{role(name): np.zeros(0) for name in kept}})
    feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(made) for name, made in empty.items() if name not in kept}
    names = [one.name for one in graph.get_outputs()]
    start = time.perf_counter()
    given = graph.run_with_ort_values(names, {**feeds, **kept})
    seconds = time.perf_counter() - start
    made = {role(name): value for name, value in zip(names, given, strict=True)}
    return {name: made[role(name)] for name in empty if role(name).startswith("cache.")}, seconds


def main() -> None:
    share_threads()
    question = __doc__.splitlines()[0]
    asked = told(question, "decode", "smollm2", EXPORTERS, graphs=Path)
    rows, required = [], []
    with tempfile.TemporaryDirectory(dir=asked.peers) as temporary:
        for one in asked.checkpoints:
            files, problems = graphs(one, able(asked.exporters, one), asked.graphs or Path(temporary), asked.peers)
            known = expected(one, asked.peers)
            drawn = np.random.default_rng(0)
            rounds = [timed(files, known, drawn) for _ in range(asked.runs)]
            turns = {name: [one[name] for one in rounds] for name in files}
            rows.extend(row(one, name, turns) for name in files)
            rows.extend({"model": one.name, "graph of": name, "problem": why} for name, why in problems.items())
            required.extend(
                Required(f"{one.name}: {what} of {ours} / {theirs}", _ratio(turns, ours, theirs, what), limit)
                for ours, theirs, what, limit in REQUIRED
            )
    published("decode", rows, required, asked.json, runs=asked.runs)


def row(one: Checkpoint, name: str, turns: dict[str, list[Timed]]) -> dict[str, Any]:
    figures = {what: _all(turns, name, what) for what in ("load", "prompt", "token")}
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
    return ratio(*(_all(turns, name, what) for name in (ours, theirs)))


def _all(turns: dict[str, list[Timed]], name: str, what: str) -> list[float]:
    return [seconds for turn in turns.get(name, []) for seconds in getattr(turn, what)]


def _thousand(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


if __name__ == "__main__":
    main()
