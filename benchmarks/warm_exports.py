"""Exports models of real sizes in one process, by onnxfn or by Optimum, each with its check.

    python warm_exports.py onnxfn|optimum

Reads the names of models from stdin, one in a line, and answers each with a line of JSON: the seconds of the export and
of its processors, the cores that other processes used meanwhile, the number of parameters, and why there are no
figures, if there are none. A model that takes longer than `LIMIT` ends the process. The answers have a stream of their
own, since the exporters print too.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from real_sized import REAL_SIZED, real_sized_model

LIMIT = 120
"""Seconds after which a model is given up."""

TOLERANCE = 1e-3
"""The largest difference that Optimum's check allows. Its default of 1e-5 refuses differences that are rounding."""

Export = Callable[[Any, str, Path], str | None]
"""Exports a model for a task to a folder and checks the files; returns how they differ from PyTorch, or None."""


def by_onnxfn(model: Any, task: str, folder: Path) -> str | None:
    import onnxfn

    try:
        onnxfn.export(onnxfn.spec_for(model, task), model, folder / "onnx")
    except onnxfn.CheckFailed as error:
        return str(error)
    return None


def by_optimum(model: Any, task: str, folder: Path) -> str | None:
    """Notes what Optimum's check finds, which Optimum itself only prints for some differences."""
    from optimum.exporters.onnx import convert

    check, found = convert.validate_models_outputs, []

    def noting_check(*arguments: Any, **named: Any) -> None:
        try:
            check(*arguments, **named)
        except Exception as error:
            found.append(str(error))
            raise

    vocoder = _saved_vocoder(model, folder.with_name("vocoder"))
    convert.validate_models_outputs = noting_check
    try:
        convert.onnx_export_from_model(model, folder, task=task, atol=TOLERANCE, model_kwargs=vocoder)
    finally:
        convert.validate_models_outputs = check
    return found[0] if found else None


def _saved_vocoder(model: Any, folder: Path) -> dict[str, str] | None:
    """The vocoder of a model, in a folder, from which Optimum reads it."""
    if not hasattr(model, "vocoder"):
        return None
    model.vocoder.save_pretrained(folder)
    return {"vocoder": str(folder)}


EXPORTS: Mapping[str, Export] = {"onnxfn": by_onnxfn, "optimum": by_optimum}


def figures(export: Export, name: str) -> dict[str, Any]:
    """The figures of one export of a model."""
    model = real_sized_model(name)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    gc.collect()  # else the objects of the last export are collected during this one
    with tempfile.TemporaryDirectory() as folder:
        (out := Path(folder) / "out").mkdir()
        start = times()
        try:
            differs = export(model, REAL_SIZED[name].task, out)
        except Exception as error:  # noqa: BLE001 - whatever the error is, this model has no figures
            return {"problem": f"cannot: {type(error).__name__}: {_in_a_line(str(error))}"}
        seconds, work, busy = (end - begin for end, begin in zip(times(), start, strict=True))
    if differs:
        return {"problem": f"wrong: {_in_a_line(differs)}"}
    others = max(0.0, busy - work) / seconds
    return {"seconds": seconds, "work": work, "others": others, "parameters": parameters}


def _in_a_line(text: str) -> str:
    return " ".join(text.split())[:200]


def times() -> tuple[float, float, float]:
    """The clock, the seconds of processors that this process has used, and those that all processes have used."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:9])
    busy = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), time.process_time(), busy


def main() -> None:
    export = EXPORTS[sys.argv[1]]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        signal.alarm(LIMIT)
        answers.write(json.dumps(figures(export, line.strip())) + "\n")
        signal.alarm(0)


if __name__ == "__main__":
    main()
