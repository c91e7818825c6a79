"""Seconds of an export by the number of layers and by the width, onnxfn and transformers.exporters.

    python benchmarks/growth.py [--runs 3] [--depths 4,8,16,32,64] [--widths 64,256,1024] [--without-peer]

Tiny Llamas with past, in a warm process. In each round every size is exported once, by onnxfn first, since the peer
leaves much memory behind. Each file must agree with PyTorch. "graph" is the time of the capture and the passes; "whole"
adds writing and the check. The peer's time is that of the graph alone.
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

from export_tiny import checked_stages, llama, peer_seconds
from figures import RESULTS, Required, median, print_and_save, ratio

GRAPH_STAGES = ("template", "capture", "passes")
NARROW, SHALLOW = 64, 4
DEPTH_LIMIT = (8, 64, 1.3)
"""Two numbers of layers, and the largest ratio of the times of their graphs."""


def onnxfn_figures(sizes: dict[str, int]) -> dict[str, float]:
    """Seconds of one export of these sizes."""
    model, task, _, _ = llama(**sizes)
    gc.collect()  # else the objects of the last export are collected during this one
    start = time.perf_counter()
    stages = checked_stages(model, task)
    return {"graph s": sum(stages.get(name, 0.0) for name in GRAPH_STAGES), "whole s": time.perf_counter() - start}


def peer_figures(sizes: dict[str, int]) -> dict[str, float]:
    model, _, sample, axes = llama(**sizes)
    gc.collect()
    return {"transformers.exporters s": peer_seconds(model, sample, axes)}


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--depths", type=numbers, default=[4, 8, 16, 32, 64])
    arguments.add_argument("--widths", type=numbers, default=[64, 256, 1024])
    arguments.add_argument("--without-peer", action="store_true")
    arguments.add_argument("--json", type=Path, default=RESULTS / "growth.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    shapes = dict.fromkeys(
        [*((depth, NARROW) for depth in options.depths), *((SHALLOW, width) for width in options.widths)]
    )
    results: dict[tuple[int, int], list[dict[str, float]]] = {shape: [] for shape in shapes}
    exporters = (onnxfn_figures,) if options.without_peer else (onnxfn_figures, peer_figures)
    for exporter in exporters:
        exporter({})
    for _ in range(options.runs):
        for rounds in results.values():
            rounds.append({})
        for exporter, ((layers, width), rounds) in product(exporters, results.items()):
            sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 2 * width}
            rounds[-1].update(exporter(sizes))
            print(f"{layers} layers of {width}: {rounds[-1]}", file=sys.stderr)
    print_and_save(
        "growth",
        [row(*shape, rounds) for shape, rounds in results.items()],
        [depth_requirement(results)],
        options.json,
        runs=options.runs,
    )


def row(layers: int, width: int, rounds: list[dict[str, float]]) -> dict[str, Any]:
    figures = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    theirs = figures.get("transformers.exporters s", [])
    medians = {name: median(seconds) for name, seconds in figures.items()}
    return {"layers": layers, "width": width, **medians, "whole / peer": ratio(figures["whole s"], theirs)}


def depth_requirement(results: dict[tuple[int, int], list[dict[str, float]]]) -> Required:
    low, high, limit = DEPTH_LIMIT
    few, many = ([figures["graph s"] for figures in results.get((depth, NARROW), [])] for depth in (low, high))
    return Required(f"time of the graph at {high} layers / at {low}", ratio(many, few), limit)


if __name__ == "__main__":
    main()
