"""The default configuration of every row: real sizes, random weights, exported and checked in a process of its own.

`tests/sweeps/real_sizes.json` holds for each model type the task, the millions of parameters, the line of the result,
the seconds of the export and of the processor, the memory in GB, and how much the outputs vary.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import default_models
import swept
import tiny

NAME = "real_sizes"
"""The file of the results in tests/sweeps."""

LONGEST = 900
"""Seconds of the processor after which an export is ended: other processes on the machine change them little."""

LONGEST_WAIT = 4 * LONGEST
"""Seconds after which an export is ended that waits."""

TOO_LARGE = "not: too large"
NO_MODEL = "not: no default model"
"""Lines of rows that are no part of the sweep, as their default configuration has no model that fits."""

REASONS: Mapping[str, str] = {
    "depth_pro": "an image of 1536 x 1536 takes 25.6 TFLOP, about 290 s of a core in PyTorch and as many in ONNX "
    "Runtime, and the check runs 3 in both; it takes no smaller ones, so the sweep leaves it out",
    "lightglue": "it stops early by default, which no graph can; the error says how to switch that off",
}
"""Why rows whose model fits do not pass."""

TOO_LONG = ("depth_pro",)
"""Rows that are not exported, for their reason."""

LEAST_VARIATION = 1e-4
"""The smallest `default_models.variation` of an output in which a fault shows."""

CONSTANT: Mapping[str, str] = {
    "time_series_transformer": "its scaler divides by the mean and subtracts nothing, so that `loc` is 0"
}
"""Why outputs of rows do not vary."""

SMALL_HEADS = ("feature-extraction",)
"""Tasks that are chosen if a row has no other."""

WITH_PAST = "-with-past"


def chosen_task(tasks: tuple[str, ...]) -> str:
    """The task of a row that the sweep exports: the first one with a head, with a past if there is one."""
    heads = [task for task in tasks if not task.startswith(SMALL_HEADS)] or list(tasks)
    return heads[0] + WITH_PAST if heads[0] + WITH_PAST in tasks else heads[0]


def seen() -> dict[str, dict[str, Any]]:
    return swept.recorded(NAME)["results"]


def is_swept(result: Mapping[str, Any] | None) -> bool:
    return result is None or not result["line"].startswith((TOO_LARGE, NO_MODEL))


def is_left(result: Mapping[str, Any] | None) -> bool:
    return result is None or result["line"] == "not: no result yet"


def passed(result: Mapping[str, Any]) -> bool:
    return not result["line"].startswith(swept.NOT)


def record(model_type: str, result: Mapping[str, Any]) -> None:
    swept.update(NAME, lambda results: {**results, model_type: dict(result)}, (model_type,))


def measured(model_type: str, task: str) -> dict[str, Any]:
    """The result of a row, exported in a process of its own; one process at a time."""
    command = [sys.executable, __file__, model_type, task]
    paths = os.pathsep.join([str(swept.ROOT), str(swept.ROOT / "tests" / "tiny_models")])
    environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    with swept.locked(NAME + " process"):
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=LONGEST_WAIT, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return {"task": task, "line": f"not: no result after {LONGEST_WAIT} s"}
    if run.returncode == -signal.SIGXCPU:
        return {"task": task, "line": f"not: no result after {LONGEST} s of the processor"}
    lines = [line for line in run.stdout.splitlines() if line.startswith('{"task"')]
    reason = (run.stderr.strip().splitlines() or [""])[-1]
    return json.loads(lines[-1]) if lines else {"task": task, "line": f"not: exit {run.returncode}: {reason}"[:300]}


# In the process


def millions(model_type: str, loader: str) -> float:
    import torch

    with torch.device("meta"):
        return sum(weight.numel() for weight in default_models.model(model_type, loader).parameters()) / 1e6


def result_of(model_type: str, task: str) -> dict[str, Any]:
    import transformers

    import onnxfn

    transformers.logging.set_verbosity_error()
    spec = onnxfn.spec_for(model_type, task)
    try:
        size = round(millions(model_type, spec.call.loader), 1)
    except Exception as error:  # noqa: BLE001 - a configuration without sizes fails anywhere
        return {"task": task, "line": f"{NO_MODEL}: {reason_of(error)}"}
    result = {"task": task, "parameters": size}
    if size > 400:  # millions of parameters
        return {**result, "line": TOO_LARGE}
    if model_type in TOO_LONG:
        return {**result, "line": swept.NOT + REASONS[model_type]}
    built = default_models.model(model_type, spec.call.loader)
    tiny.disturb(built)
    try:
        variation = default_models.least_variation(default_models.outputs_with_statistics(built, spec))
    except Exception as error:  # noqa: BLE001 - each reason is a line of the table
        return {**result, "line": swept.NOT + reason_of(error)}
    return {**result, "variation": variation, **exported(spec, built)}


def exported(spec: Any, model: Any) -> dict[str, Any]:
    """The line of the export of a model with its check, the seconds, and the largest memory of this process in GB."""
    import onnxfn

    start, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            line = swept.line(onnxfn.export(spec, model, Path(folder) / "out"))
        except Exception as error:  # noqa: BLE001 - each reason is a line of the table
            line = swept.NOT + reason_of(error)
    seconds, processor = round(time.perf_counter() - start, 1), round(time.process_time() - processor, 1)
    memory = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1)
    return {"line": line, "seconds": seconds, "processor": processor, "memory": memory}


def reason_of(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 1))
    print(json.dumps(result_of(*sys.argv[1:])))
