"""Modules of other libraries: whether onnxfn's and torch.onnx's files are right far from the sample, and the seconds.

    python benchmarks/export_modules.py [--modules GCN,Unet] [--left] [--json FILE]

Needs the libraries of `modules.py` in this environment. Each module has a process of its own, in which both exporters
take turns after a small module. onnxfn's time includes finding the spec, writing and the check, torch's is that of the
graph. Each file is run at all far sizes that PyTorch takes. It is right if it agrees at all sizes that it does not
refuse by a limit, and takes half of them at least. torch.onnx.export has no limits. The row of a module is saved when
it is measured, and rows of other modules stay as they are; `--left` measures the modules without figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from export_real import saved_rows, today
from figures import RESULTS, Required, median, print_and_save, save
from modules import INPUTS, LIBRARIES, Inputs, Row, made, rows
from warm_exports import times

import onnxfn

WARM_UP = Row("torch.nn", "Linear(8, 2)", "table")
"""A module that is exported first, which loads what both exporters need."""

TOLERANCE = 2e-3
"""The largest difference from PyTorch, relative to the largest number of an output, or to 1e-3."""

LIMIT = 1800
"""The most seconds of a module."""

RATIO_LIMIT, WRONG_LIMIT = 0.5, 3
"""The largest median of times, and the most modules of 60 without a right file."""

Arrays = Sequence[np.ndarray[Any, Any]]
Call = Callable[[Sequence[torch.Tensor]], Arrays | None]
"""The outputs of a file; None if it refuses the sizes."""


def by_onnxfn(module: Any, inputs: Inputs, folder: Path) -> Call:
    """Exports and checks a module."""
    tensors = inputs.make(**inputs.sample)
    names = list(signature(module.forward).parameters)[: len(tensors)]
    axes = dict(zip(names, inputs.axes, strict=True))
    spec = onnxfn.derived(module, sample=dict(zip(names, tensors, strict=True)), axes=axes)
    exported = onnxfn.export(spec, module, folder / "onnxfn")

    def call(tensors: Sequence[torch.Tensor]) -> Arrays | None:
        try:
            return [*exported(**dict(zip(names, tensors, strict=True))).values()]
        except onnxfn.InvalidSpec:
            return None

    return call


def by_torch(module: Any, inputs: Inputs, folder: Path) -> Call:
    """Exports a module."""
    moving = [
        {at: torch.export.Dim.AUTO for at, word in enumerate(axes.split()) if word in inputs.sample}
        for axes in inputs.axes
    ]
    tensors = tuple(inputs.make(**inputs.sample))
    program = torch.onnx.export(module, tensors, dynamo=True, dynamic_shapes=tuple(moving), verbose=False)

    def call(tensors: Sequence[torch.Tensor]) -> Arrays:
        if not (folder / "torch.onnx").exists():
            program.save(folder / "torch.onnx")
        session = onnxruntime.InferenceSession(str(folder / "torch.onnx"), providers=["CPUExecutionProvider"])
        feeds = {each.name: tensor.numpy() for each, tensor in zip(session.get_inputs(), tensors, strict=False)}
        return session.run(None, feeds)

    return call


EXPORTERS: Mapping[str, Callable[[Any, Inputs, Path], Call]] = {"onnxfn": by_onnxfn, "torch": by_torch}


def figures(export: Callable[[Any, Inputs, Path], Call], module: Any, inputs: Inputs) -> dict[str, Any]:
    """The figures of one export of a module: its seconds, and how many far sizes are right, or why there are none."""
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        try:
            start = times()
            call = export(module, inputs, Path(folder))
            seconds = times()[0] - start[0]
        except Exception as error:  # noqa: BLE001 - whatever the error is, this exporter has no file
            return {"problem": f"cannot: {type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        return {"s": seconds, **compared(call, module, inputs)}


def compared(call: Call, module: Any, inputs: Inputs) -> dict[str, Any]:
    """How many of the far sizes a file has right, refuses and has wrong; the first of these in words."""
    right, refused, wrong = 0, 0, list[str]()
    for number, sizes in enumerate(inputs.far):
        torch.manual_seed(number)
        tensors = inputs.make(**sizes)
        try:
            with torch.no_grad():
                expected = flat(module(*tensors))
        except Exception:  # noqa: BLE001, S112 - PyTorch does not take these sizes
            continue
        try:
            found = call(tensors)
        except Exception as error:  # noqa: BLE001 - the file does not run
            wrong.append(f"{sizes}: {' '.join(str(error).split())[:120]}")
            continue
        if found is None:
            refused += 1
        elif problem := difference(expected, found):
            wrong.append(f"{sizes}: {problem}")
        else:
            right += 1
    return {"right": right, "refused": refused, "wrong": len(wrong), "first wrong": (wrong or [""])[0]}


def difference(expected: Arrays, found: Arrays) -> str:
    """In words how outputs differ; nothing if they agree."""
    if len(expected) != len(found):
        return f"{len(found)} outputs, not {len(expected)}"
    for one, other in zip(expected, found, strict=True):
        if one.shape != other.shape:
            return f"shape {other.shape}, not {one.shape}"
        scale = max(1e-3, float(np.abs(one).max(initial=0)))
        if one.size and not float(np.abs(other - one).max()) / scale <= TOLERANCE:
            return f"{float(np.abs(other - one).max()) / scale:.1e} away"
    return ""


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    """The tensors of a result, in order."""
    tensors = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    reals = [torch.view_as_real(each) if each.is_complex() else each for each in tensors]
    return [each.float().numpy() for each in reals]


def measured(row: Row) -> dict[str, Any]:
    """The figures of both exporters for a module, after those of the small one."""
    for warm_up in (WARM_UP, row):
        by_exporter = {
            name: figures(export, made(warm_up), INPUTS[warm_up.inputs]) for name, export in EXPORTERS.items()
        }
    return {f"{name} {key}": value for name, each in by_exporter.items() for key, value in each.items()}


def is_right(row: Mapping[str, Any], exporter: str) -> bool:
    """Whether the file of an exporter agrees wherever it runs, at half of the far sizes at least."""
    right, refused = row.get(f"{exporter} right", 0), row.get(f"{exporter} refused", 0)
    return right > 0 and right >= refused and not row.get(f"{exporter} wrong", 1)


def required(every: Sequence[Mapping[str, Any]]) -> list[Required]:
    """The requirements on right files and on times."""
    right = {name: sum(is_right(row, name) for row in every) for name in EXPORTERS}
    ratios = [row["onnxfn s"] / row["torch s"] for row in every if "onnxfn s" in row and "torch s" in row]
    return [
        Required(f"{len(every)} modules of other libraries: no right file", len(every) - right["onnxfn"], WRONG_LIMIT),
        Required("the same by torch.onnx, below which onnxfn is", right["torch"] - right["onnxfn"], -1),
        Required(f"{len(ratios)} of these: median of time / torch.onnx's", median(ratios), RATIO_LIMIT),
    ]


def in_process(row: Row) -> dict[str, Any]:
    """The figures of a module, from a process of its own."""
    command = [sys.executable, __file__, "--one", row.name]
    try:
        run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"onnxfn problem": f"longer than {LIMIT} s"}
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"onnxfn problem": run.stderr.strip()[-200:]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--modules", help="Measure the modules that have one of these words alone.")
    arguments.add_argument("--left", action="store_true", help="Leave out modules that have figures.")
    arguments.add_argument("--one", help="Print the figures of one module.")
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_modules.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        print(json.dumps(measured(next(row for row in rows() if row.name == options.one))))
        return
    saved, words = saved_rows(options.json), options.modules.split(",") if options.modules else [""]
    for row in rows():
        if any(word in row.name for word in words) and not (options.left and row.name in saved):
            saved[row.name] = {"model": row.name, **in_process(row), "date": today()}
            print(saved[row.name], flush=True)
            save(
                "export_modules",
                [*saved.values()],
                required([*saved.values()]),
                options.json,
                runs=1,
                packages=LIBRARIES,
            )
    every = [*saved.values()]
    print_and_save("export_modules", every, required(every), options.json, runs=1, packages=LIBRARIES)


if __name__ == "__main__":
    main()
