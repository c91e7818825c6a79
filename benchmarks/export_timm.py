"""Seconds of the export of models of timm: onnxfn with its check, and torch.onnx.export without one.

    python benchmarks/export_timm.py [--count 60] [--models resnet14t,dla34] [--left] [--json FILE]

Needs timm in this environment. The models are the first one of each module of timm that has at most 60 million
parameters, smallest first; modules whose models are all larger, or have no images, have none. Both exporters take turns
in one process, after a small model. torch.onnx.export moves the batch alone. onnxfn moves height and width too if the
model can take other images; the table has the axes. onnxfn's time includes writing and the check, torch's is that of
the graph. Each file must agree with PyTorch. The row of a model is saved when it is measured, and rows of other models
stay as they are; `--left` measures the models without figures of onnxfn. A row tells how many cores other processes
used meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import signal
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from export_real import Row, saved_rows, today
from figures import RESULTS, Required, median, print_and_save, save
from warm_exports import LIMIT, times

import onnxfn

TASK = "image-classification"
WARM_UP = "resnet10t"
"""A model that is exported first, which loads what both exporters need."""

PACKAGES = ("timm", "torchvision")
MEDIAN_LIMIT = 1.5
LARGEST = 60_000_000
"""The most parameters of a model."""

TOLERANCE = 1e-3
"""The largest difference of torch's file, relative to the root mean square of PyTorch's output, at least 1."""

Compare = Callable[[], None]
"""Compares a file with PyTorch; an AssertionError if they differ."""


def first_small_models() -> list[str]:
    """The first model of each module of timm that has at most `LARGEST` parameters, smallest first."""
    import timm

    modules = [timm.list_models(module=module) for module in timm.list_modules()]
    small = [islice((name for name in names if 0 < parameters(name) <= LARGEST), 1) for names in modules]
    return sorted((name for names in small for name in names), key=parameters)


def parameters(name: str) -> int:
    """The number of parameters of a model; 0 if it cannot be made without weights."""
    import timm

    with suppress(Exception), torch.device("meta"):
        return sum(parameter.numel() for parameter in timm.create_model(name).parameters())
    return 0


def by_onnxfn(model: Any, folder: Path) -> tuple[str, Compare]:
    """Exports and checks a model; returns its dynamic axes and a comparison that has nothing left to do."""
    exported = onnxfn.export(onnxfn.spec_for(model, TASK), model, folder / "onnxfn.onnx")
    return ", ".join(exported.inputs["pixel_values"].values()), lambda: None


def by_torch(model: Any, folder: Path) -> tuple[str, Compare]:
    """Exports a model; returns its dynamic axis and the comparison of the file with PyTorch, at another batch."""
    sample = torch.randn(2, *model.pretrained_cfg["input_size"])
    axes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.onnx.export(model, (sample,), dynamo=True, dynamic_shapes=axes, verbose=False)

    def compare() -> None:
        program.save(folder / "torch.onnx")
        pixels = torch.randn(3, *sample.shape[1:])
        session = onnxruntime.InferenceSession(str(folder / "torch.onnx"))
        with torch.no_grad():
            expected = model(pixels).numpy()
        found = session.run(None, {session.get_inputs()[0].name: pixels.numpy()})[0]
        tolerated = TOLERANCE * max(1.0, float(np.sqrt(np.square(expected).mean())))
        assert float(np.abs(found - expected).max()) <= tolerated, "differs from PyTorch"

    return "batch_size", compare


EXPORTS: Mapping[str, Callable[[Any, Path], tuple[str, Compare]]] = {"onnxfn": by_onnxfn, "torch": by_torch}


def row(name: str) -> Row:
    """The figures of a model."""
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name).eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    by_exporter = {exporter: figures(export, model) for exporter, export in EXPORTS.items()}
    problems = [f"{exporter} {each['problem']}" for exporter, each in by_exporter.items() if "problem" in each]
    named = {f"{exporter} {key}": value for exporter, each in by_exporter.items() for key, value in each.items()}
    others = max((each["others"] for each in by_exporter.values() if "others" in each), default=None)
    return {
        "model": name,
        "parameters": parameters,
        **{key: value for key, value in named.items() if not key.endswith((" problem", " others"))},
        "ratio": None if problems else named["onnxfn s"] / named["torch s"],
        "others": others,
        "date": today(),
        "problem": "; ".join(problems),
    }


def figures(export: Callable[[Any, Path], tuple[str, Compare]], model: Any) -> Row:
    """The figures of one export of a model, or why there are none."""
    gc.collect()  # else the objects of the last export are collected during this one
    signal.alarm(LIMIT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = times()
            axes, compare = export(model, Path(folder))
            seconds, work, busy = (end - begin for end, begin in zip(times(), start, strict=True))
            compare()
    except Exception as error:  # noqa: BLE001 - whatever the error is, this exporter has no figures
        return {"problem": f"cannot: {type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    finally:
        signal.alarm(0)
    return {"s": seconds, "work": work, "axes": axes, "others": max(0.0, busy - work) / seconds}


def give_up(*_: Any) -> None:
    raise TimeoutError(f"longer than {LIMIT} s")


def required(rows: list[Row]) -> list[Required]:
    """The requirements on the ratios, and on how many models onnxfn cannot export."""
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    failed = sum("onnxfn s" not in row for row in rows)
    return [
        Required(f"{len(ratios)} models of timm: median of time / torch.onnx's", median(ratios), MEDIAN_LIMIT),
        Required(f"of {len(rows)} models of timm: not exported", float(failed), 0.0),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, help="Measure the smallest models alone.")
    arguments.add_argument("--models", help="Measure these models alone.")
    arguments.add_argument("--left", action="store_true", help="Leave out models that have onnxfn's figures.")
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_timm.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, give_up)
    rows = saved_rows(options.json)
    names = options.models.split(",") if options.models else first_small_models()[: options.count]
    left = [name for name in names if not (options.left and "onnxfn s" in rows.get(name, {}))]
    for name in [WARM_UP, *left]:
        measured = row(name)
        print(measured, flush=True)
        if name in left:
            rows[name] = measured
            save("export_timm", ordered(rows), required(ordered(rows)), options.json, runs=1, packages=PACKAGES)
    print_and_save("export_timm", ordered(rows), required(ordered(rows)), options.json, runs=1, packages=PACKAGES)


def ordered(rows: Mapping[str, Row]) -> list[Row]:
    """The rows, smallest model first."""
    return sorted(rows.values(), key=lambda row: row["parameters"])


if __name__ == "__main__":
    main()
