"""Seconds of exporting many fine-tunes of one architecture, and of the second run, which has nothing to do.

    python benchmarks/many.py [--jobs 200]

So many checkpoints each of a tiny BERT and of a tiny Llama, with weights of their own, in two processes, without a
check; and again, where a process is killed when half of the jobs are done. No job may be lost, and a sample of the
files must agree with PyTorch. "graphs" is the time of the first job of each architecture, which traces the model.
"copying" is the time of copying the checkpoints' files. "started again" counts jobs that export_many started again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
from figures import RESULTS, Required, print_and_save

from onnxfn import BatchEvent, BatchResult, BuildOptions, ExportRequest, export_many, load

WORKERS = 2
SECONDS_A_JOB = 0.3
COPYING_FACTOR = 1.5
SECOND_RUN_SECONDS = 10.0
SAMPLE = 5
TOLERANCE = 1e-4
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def new_model(architecture: str, seed: int) -> Any:
    """A tiny model with random weights."""
    import torch
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    if architecture == "bert":
        return BertModel(BertConfig(**SIZES, vocab_size=1000)).eval()
    return LlamaForCausalLM(LlamaConfig(**SIZES, vocab_size=1000, num_key_value_heads=2)).eval()


def save_fine_tunes(folder: Path, number: int) -> dict[str, list[Path]]:
    """Saves so many checkpoints of each architecture; their folders."""
    folders = {name: [folder / f"{name}-{seed:03}" for seed in range(number)] for name in ("bert", "llama")}
    for name, paths in folders.items():
        for seed, path in enumerate(paths):
            new_model(name, seed).save_pretrained(path)
    return folders


def copying_seconds(folders: list[Path], target: Path) -> float:
    start = time.perf_counter()
    for folder in folders:
        shutil.copytree(folder, target / folder.name)
    return time.perf_counter() - start


def differences(architecture: str, folders: list[Path], out: Path) -> Iterator[float]:
    """How far a sample of the files is from PyTorch, at sizes that were not traced."""
    import torch

    for seed in range(0, len(folders), max(1, len(folders) // SAMPLE)):
        model, ids = new_model(architecture, seed), torch.randint(0, 1000, (3, 7))
        feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            expected = model(**feeds)[0].numpy()
        result = load(out / folders[seed].name)
        for name in result.inputs:
            if name == "position_ids":
                feeds[name] = torch.arange(7).expand(3, 7)
            elif name == "token_type_ids":
                feeds[name] = torch.zeros_like(ids)
            elif name.startswith("past_key_values"):
                feeds[name] = torch.zeros(3, 2, 0, 16)
        yield float(np.abs(next(iter(result(**feeds).values())) - expected).max())


def server_process() -> int:
    """The process of a server that this one has started."""
    children = [child for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()]
    return next(int(child) for child in children if "batch.server" in Path("/proc", child, "cmdline").read_text())


def measured(architecture: str, folders: list[Path], folder: Path, *, kill: bool) -> dict[str, Any]:
    """The row of an architecture. Fails if a job failed or is lost, or a file differs from PyTorch."""
    folder = Path(mkdtemp(dir=folder))
    out, build = folder / "out", BuildOptions(template_cache=folder / "cache")
    jobs = [ExportRequest(path, out / path.name, check=False, build=build) for path in folders]
    copying = copying_seconds(folders, folder / "copy")
    killed: list[int] = []

    def kill_once(event: BatchEvent) -> None:
        if kill and event.completed == len(jobs) // 2 and not killed:
            killed.append(server_process())
            os.kill(killed[0], signal.SIGKILL)

    first = exported(jobs, out, kill_once)
    largest = max(differences(architecture, folders, out))
    if largest > TOLERANCE:
        raise SystemExit(f"a file of {architecture} is {largest} away from PyTorch")
    if len(killed) != kill:
        raise SystemExit("no worker was killed")
    second = exported(jobs, out)
    if any(job.status != "unchanged" for job in second.jobs):
        raise SystemExit(f"the second run has exported again: {second}")
    graph = max(job.seconds for job in first.jobs)
    return {
        "model": architecture,
        "run by": "processes, one killed" if kill else "processes",
        "jobs": len(jobs),
        "started again": sum(job.attempts - 1 for job in first.jobs),
        "seconds": first.seconds,
        "allowed s": COPYING_FACTOR * copying + graph + SECONDS_A_JOB * len(jobs),
        "graphs s": graph,
        "copying s": copying,
        "seconds a job": (first.seconds - graph) / len(jobs),
        "second run s": second.seconds,
    }


def exported(
    jobs: list[ExportRequest], out: Path, on_event: Callable[[BatchEvent], None] = lambda _: None
) -> BatchResult:
    result = export_many(jobs, workers=WORKERS, log=out / "batch.jsonl", on_event=on_event)
    if result.failed:
        raise SystemExit(str(result))
    return result


def _name(row: dict[str, Any]) -> str:
    return f"{row['model']} by {row['run by']}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--jobs", type=int, default=200)
    arguments.add_argument("--json", type=Path, default=RESULTS / "many.json")
    options = arguments.parse_args()
    with TemporaryDirectory() as folder:
        folders = save_fine_tunes(Path(folder), options.jobs)
        rows = [
            measured(name, paths, Path(folder), kill=kill) for kill in (False, True) for name, paths in folders.items()
        ]
    required = [
        *(Required(f"{_name(row)}: seconds / allowed", row["seconds"] / row["allowed s"], 1.0) for row in rows),
        *(
            Required(f"{_name(row)}: seconds of the second run", row["second run s"], SECOND_RUN_SECONDS)
            for row in rows
        ),
    ]
    print_and_save("many", rows, required, options.json, runs=1)


if __name__ == "__main__":
    main()
