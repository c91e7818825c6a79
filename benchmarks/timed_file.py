"""Milliseconds of a prompt and of a token of one decoder's file, and the memory of the process that runs it.

As a program it runs a file alone: `timed_file.py FILE HEAD_DIM`. The first prompt is a warm-up. The files take turns,
round by round, so a disturbance of one round disturbs all of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from answers import session
from decode import PROMPT, run_step
from figures import median
from processes import run_process

PROMPTS, TOKENS = 2, 12
MARK = "times:"
"""What the program prints before its times."""


def timed_files(files: Mapping[str, Path], head_dim: int, rounds: int) -> dict[str, dict[str, Any]]:
    """From the name of each file to its times and memory: medians over the rounds."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in files}
    for _ in range(rounds):
        for name, file in files.items():
            process = run_process([sys.executable, __file__, file, str(head_dim)])
            assert process.code == 0, process.output
            times = json.loads(process.output.rpartition(MARK)[2])
            runs[name].append({**times, "GB resident": process.resident / 1e9})
            print(f"{name}: {runs[name][-1]}", file=sys.stderr)
    return {name: {what: median([run[what] for run in each]) for what in each[0]} for name, each in runs.items()}


def times(file: Path, head_dim: int) -> dict[str, float | None]:
    """The milliseconds of prompts and of tokens after one, medians."""
    graph, constant = session(file), {"head_dim": head_dim}
    ids = np.arange(5, 5 + PROMPT, dtype=np.int64)[None]
    prompts = [run_step(graph, constant, ids, PROMPT, {}) for _ in range(1 + PROMPTS)]
    cache, tokens = prompts[-1][0], list[float]()
    for turn in range(TOKENS):
        cache, seconds = run_step(graph, constant, ids[:, :1], PROMPT + 1 + turn, cache)
        tokens.append(1000 * seconds)
    return {"token ms": median(tokens), f"prompt of {PROMPT} ms": median([1000 * each for _, each in prompts[1:]])}


if __name__ == "__main__":
    print(MARK, json.dumps(times(Path(sys.argv[1]), int(sys.argv[2]))))
