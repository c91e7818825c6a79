"""Seconds of the export of models of timm, onnxfn and torch.onnx.export with a dynamic batch alone.

    python benchmarks/export_timm.py [--count 60] [--left] [--json FILE]

Needs timm in this environment. The models are the first of each module of timm that has at most 60 million parameters.
Both exporters take turns in one process, after a small model. onnxfn's time includes writing and the check, torch's is
that of the graph. Each file must agree with PyTorch. The row of a model is saved when it is measured; `--left` measures
the models without a row.
"""

from __future__ import annotations

import argparse
import gc
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from export_real import Row, saved_rows, today
from figures import RESULTS, Required, median, print_and_save, save
from time_line import give_up
from warm_exports import LIMIT, times

import onnxfn

TASK = "image-classification"
LARGEST = 60_000_000
"""The most parameters of a model."""

MEDIAN_LIMIT = 1.5
TOLERANCE = 1e-3
"""The largest difference of torch's file, relative to the root mean square of PyTorch's output, at least 1."""


def model_names() -> Iterator[str]:
    """A small model of each module of timm."""
    import timm

    for module in timm.list_modules():
        yield from islice(filter(is_small, timm.list_models(module=module)), 1)


def is_small(name: str) -> bool:
    """Whether a model has at most `LARGEST` parameters; false for one that cannot be made without weights."""
    import timm

    with suppress(Exception), torch.device("meta"):
        return sum(parameter.numel() for parameter in timm.create_model(name).parameters()) <= LARGEST
    return False


def by_onnxfn(model: Any, folder: Path) -> None:
    onnxfn.export(onnxfn.spec_for(model, TASK), model, folder / "onnxfn.onnx")


def by_torch(model: Any, folder: Path) -> Callable[[], None]:
    """Exports a model; returns the comparison of the file with PyTorch, at another batch."""
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

    return compare


def row(name: str) -> Row:
    """The figures of a model."""
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name).eval()
    figures: Row = {"model": name, "date": today(), "problem": ""}
    for exporter, export in (("onnxfn", by_onnxfn), ("torch", by_torch)):
        gc.collect()
        signal.alarm(LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            start = times()
            try:
                compare = export(model, Path(folder))
                seconds, work, _ = (end - begin for end, begin in zip(times(), start, strict=True))
                if compare is not None:
                    compare()
                figures |= {f"{exporter} s": seconds, f"{exporter} work": work}
            except Exception as error:  # noqa: BLE001 - whatever the error is, this exporter has no figures
                figures["problem"] += (
                    f"{exporter} cannot: {type(error).__name__}: {' '.join(str(error).split())[:200]} "
                )
            finally:
                signal.alarm(0)
    if not figures["problem"]:
        figures |= {"ratio": figures["onnxfn s"] / figures["torch s"]}
    return figures


def required(rows: list[Row]) -> list[Required]:
    """The requirements on the ratios, and on how many models onnxfn cannot export."""
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    failed = sum("onnxfn s" not in row for row in rows)
    return [
        Required(f"{len(ratios)} models of timm: median of time / torch.onnx's", median(ratios), MEDIAN_LIMIT),
        Required(f"of {len(rows)} models of timm: not exported", float(failed), 0.0),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=60)
    arguments.add_argument("--left", action="store_true", help="Leave out models that have a row.")
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_timm.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, give_up)
    row("resnet10t")
    rows = saved_rows(options.json)
    for name in islice(model_names(), options.count):
        if not (options.left and name in rows):
            rows[name] = row(name)
            print(rows[name], flush=True)
            save("export_timm", list(rows.values()), required(list(rows.values())), options.json, runs=1)
    print_and_save("export_timm", list(rows.values()), required(list(rows.values())), options.json, runs=1)


if __name__ == "__main__":
    main()
