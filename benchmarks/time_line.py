"""Seconds of an export with its check by stage and by cause, for models of real sizes in a warm process.

    python benchmarks/time_line.py [--models resnet-50,vits] [--left] [--json FILE]

Each moment counts once, for the innermost of the timed functions that run. The row of a model is saved when it is
measured, and rows of other models stay as they are; `--left` measures the models without a row.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

from export_real import Row, ordered, saved_rows, today
from figures import RESULTS, print_and_save, save
from real_sized import REAL_SIZED, WARM_UP, real_sized_model
from warm_exports import LIMIT, times

import onnxfn

OTHER = "other"
"""The cause of what no timed function spends, such as the plan and copies of the model."""

SIZES = "symbolic sizes"
CAUSES: Sequence[tuple[str, str]] = (
    ("tracing", "torch.export.export"),
    ("functionalizing", "onnxfn.graphs.capture.capture.lower_in_place"),
    ("decomposing", "onnxfn.graphs.capture.lowering.decompose_in_place"),
    ("second trace", "torch.onnx._internal.exporter._core._prepare_exported_program_for_export"),
    ("translation", "onnxfn.graphs.capture.capture.insert_type_promotions"),
    ("translation", "torch.onnx._internal.exporter._core._exported_program_to_onnx_program"),
    ("check: PyTorch", "onnxfn.check.references.torch_outputs"),
    ("check: float64", "onnxfn.check.exact_outputs.torch_outputs"),
    ("check: ONNX Runtime", "onnxruntime.InferenceSession.__init__"),
    ("check: ONNX Runtime", "onnxruntime.InferenceSession.run"),
    ("waiting", "concurrent.futures.Future.result"),
)
"""A cause, and a function whose time is counted for it. Stages of the export are causes too, by their names.

What is waited for runs in other threads: ONNX Runtime on the cases of the check, and the comparison of weights.
"""

SIZE_METHODS = (
    "evaluate_expr",
    "evaluate_sym_node",
    "simplify",
    "bound_sympy",
    "guard_or_defer_runtime_assert",
    "produce_guards_verbose",
    "create_symbolic_sizes_strides_storage_offset",
    "create_symintnode",
)
"""Methods of torch's `ShapeEnv` that compute with sizes. Those of `SymNode` are its operators."""

Function = Callable[..., Any]


class Clock:
    """Counts each moment for the innermost cause that has begun and not ended.

    Attributes:
        seconds: The seconds of each cause.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self.causes = [OTHER]
        self.now, self.last = now, now()
        self.thread = threading.get_ident()

    def begin(self, cause: str) -> None:
        self._count()
        self.causes.append(cause)

    def end(self) -> None:
        self._count()
        self.causes.pop()

    def _count(self) -> None:
        now, cause = self.now(), self.causes[-1]
        self.seconds[cause] = self.seconds.get(cause, 0.0) + now - self.last
        self.last = now

    def finish(self) -> None:
        """Counts what has passed since the last change of the cause."""
        self._count()

    def timed(self, cause: str, function: Function) -> Function:
        """A function that does the same, and whose time is counted. Other threads run beside this one: uncounted."""

        @wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            if threading.get_ident() != self.thread:
                return function(*arguments, **named)
            self.begin(cause)
            try:
                return function(*arguments, **named)
            finally:
                self.end()

        return counted


def timed_functions() -> list[tuple[str, Any, str]]:
    """A cause, the owner of a function and its name, for each function that is timed."""
    from torch.fx.experimental.sym_node import METHOD_TO_OPERATOR, SymNode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    functions = [(cause, *_owner_and_name(path)) for cause, path in CAUSES]
    operators = [(SIZES, SymNode, name) for name in METHOD_TO_OPERATOR if name in vars(SymNode)]
    return [*functions, *operators, *((SIZES, ShapeEnv, name) for name in SIZE_METHODS)]


def _owner_and_name(path: str) -> tuple[Any, str]:
    """The module or class that has the function with this path, and its name there."""
    owner_path, _, name = path.rpartition(".")
    try:
        return import_module(owner_path), name
    except ModuleNotFoundError:
        module, _, owner = owner_path.rpartition(".")
        return getattr(import_module(module), owner), name


@contextmanager
def timed(clock: Clock) -> Iterator[None]:
    """Counts the time of the functions, which are themselves again afterwards."""
    originals = [(owner, name, getattr(owner, name)) for _, owner, name in timed_functions()]
    for cause, owner, name in timed_functions():
        setattr(owner, name, clock.timed(cause, getattr(owner, name)))
    try:
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def time_line(name: str) -> Row:
    """The seconds of each cause in the export of a model, and their sum."""
    model = real_sized_model(name)
    gc.collect()  # else the objects of the last export are collected during this one
    clock = Clock()

    def count(event: onnxfn.Event) -> None:
        if event.status != "progress":
            clock.begin(event.stage) if event.status == "start" else clock.end()

    start = times()
    signal.alarm(LIMIT)
    try:
        with tempfile.TemporaryDirectory() as folder, timed(clock):
            spec = onnxfn.spec_for(model, REAL_SIZED[name].task)
            onnxfn.export(spec, model, Path(folder) / "onnx", on_event=count)
            clock.finish()
    except Exception as error:  # noqa: BLE001 - whatever the error is, this model has no figures
        return {"problem": f"cannot: {type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    finally:
        signal.alarm(0)
    seconds, work, busy = (end - begin for end, begin in zip(times(), start, strict=True))
    return {"seconds": seconds, **clock.seconds, "others": max(0.0, busy - work) / seconds}


def sum_row(rows: Sequence[Row]) -> Row:
    """The sums of all models."""
    figures = {cause for row in rows for cause, figure in row.items() if isinstance(figure, float)} - {"others"}
    return {"model": "all", **{cause: sum(row.get(cause, 0.0) for row in rows) for cause in sorted(figures)}}


def give_up(*_: Any) -> None:
    raise TimeoutError(f"longer than {LIMIT} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--models", default=",".join(name for name in REAL_SIZED if name != WARM_UP))
    arguments.add_argument("--left", action="store_true", help="Leave out models that have a row.")
    arguments.add_argument("--json", type=Path, default=RESULTS / "time_line.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, give_up)
    time_line(WARM_UP)
    rows = saved_rows(options.json)
    for model in options.models.split(","):
        if not (options.left and model in rows):
            rows[model] = {"model": model, **time_line(model), "date": today()}
            print(rows[model], file=sys.stderr)
            save("time_line", [*ordered(rows), sum_row(ordered(rows))], [], options.json, runs=1)
    print_and_save("time_line", [*ordered(rows), sum_row(ordered(rows))], [], options.json, runs=1)


if __name__ == "__main__":
    main()
