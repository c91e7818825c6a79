"""How does the time of an export grow with a model's depth, and with its width, beside transformers.exporters?

    python benchmarks/growth.py [--runs 3] [--depths 4,8,16,32,64] [--widths 64,256,1024] [--without-peer]

Tiny Llamas with past, in a warm process; in each round every size has its turn, all of onnxfn's before the peer's,
which leaves much behind, and each file must agree with PyTorch. A graph's time is that of its capture
and passes; the whole adds writing and the check. The peer's is the graph alone.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

from export_tiny import by_peer, checked, llama
from figures import RESULTS, Required, median, published, ratio

GRAPH = ("template", "capture", "passes")
NARROW, SHALLOW = 64, 4
FLAT = (8, 64, 1.3)
"""From which depth to which the time of the graph grows at most by how much."""


def ours(sizes: dict[str, int]) -> dict[str, float]:
    """Seconds of one export of these sizes."""
    model, task, _, _ = llama(**sizes)
    gc.collect()  # or what was left behind before is searched through in the middle of this one
    start = time.perf_counter()
    stages = checked(model, task)
    return {"graph s": sum(stages.get(name, 0.0) for name in GRAPH), "whole s": time.perf_counter() - start}


def theirs(sizes: dict[str, int]) -> dict[str, float]:
    model, _, sample, axes = llama(**sizes)
    gc.collect()
    return {"transformers.exporters s": by_peer(model, sample, axes)}


def numbers(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--depths", type=numbers, default=[4, 8, 16, 32, 64])
    arguments.add_argument("--widths", type=numbers, default=[64, 256, 1024])
    arguments.add_argument("--without-peer", action="store_true")
    arguments.add_argument("--json", type=Path, default=RESULTS / "growth.json")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    shapes = dict.fromkeys(
        [*((depth, NARROW) for depth in asked.depths), *((SHALLOW, width) for width in asked.widths)]
    )
    found: dict[tuple[int, int], list[dict[str, float]]] = {shape: [] for shape in shapes}
    exporters = (ours,) if asked.without_peer else (ours, theirs)
    for exporter in exporters:
        exporter({})
    for _ in range(asked.runs):
        for turns in found.values():
            turns.append({})
        for exporter, ((layers, width), turns) in product(exporters, found.items()):
            sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 2 * width}
            turns[-1].update(exporter(sizes))
            print(f"{layers} layers of {width}: {turns[-1]}", file=sys.stderr)
    published(
        "growth", [row(*shape, turns) for shape, turns in found.items()], [flat(found)], asked.json, runs=asked.runs
    )


def row(layers: int, width: int, turns: list[dict[str, float]]) -> dict[str, Any]:
    figures = {name: [turn[name] for turn in turns] for name in turns[0]}
    theirs = figures.get("transformers.exporters s", [])
    medians = {name: median(seconds) for name, seconds in figures.items()}
    return {"layers": layers, "width": width, **medians, "whole / peer": ratio(figures["whole s"], theirs)}


def flat(found: dict[tuple[int, int], list[dict[str, float]]]) -> Required:
    low, high, limit = FLAT
    few, many = ([turn["graph s"] for turn in found.get((depth, NARROW), [])] for depth in (low, high))
    return Required(f"time of the graph at {high} layers / at {low}", ratio(many, few), limit)


if __name__ == "__main__":
    main()
