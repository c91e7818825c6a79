"""PyTorch's outputs in a wider dtype than that of the export: the exact reference of a check."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.check.precision import MEMORY_SHARE, precision_of
from onnxfn.graphs.capture.dtypes import float_count, in_dtype
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import first_line
from onnxfn.specs.planned import Part

ExactOutputs = Callable[[Part, Mapping[str, Array]], tuple[str, tuple[Array, ...]]]
"""From a part and its inputs to the name of the wider dtype and PyTorch's outputs in it. It may raise NoReference."""

MEMORY = Path("/proc/meminfo")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


class NoReference(Exception):
    """PyTorch cannot compute the outputs in a wider dtype; the message says why."""


def exact_outputs(model: Any, dtype: str | None) -> ExactOutputs:
    """A function that computes PyTorch's outputs in the first of the wider dtypes of `dtype` that can run.

    The function holds the copies of the model that it makes, from its first call until it is itself released. What
    fails once for a part is not tried again.
    """
    wider_copy = cache(lambda wider: _wider_copy(model, wider))
    failures: dict[tuple[str, str], str] = {}

    def outputs(part: Part, arrays: Mapping[str, Array]) -> tuple[str, tuple[Array, ...]]:
        import torch

        for wider in precision_of(dtype).wider:
            if (part.name, wider) not in failures:
                try:
                    return wider, torch_outputs(wider_copy(wider), part, arrays, getattr(torch, wider))
                except Exception as error:  # noqa: BLE001 - the code of any model may raise anything
                    failures[part.name, wider] = f"{wider} cannot run: {first_line(error)}"
        reasons = [text for (name, _), text in failures.items() if name == part.name]
        raise NoReference("; ".join(reasons) or f"there is no dtype wider than {dtype}")

    return outputs


def rounded_inputs(inputs: Mapping[str, Array], dtype: str | None) -> dict[str, Array]:
    """The inputs with each real number moved up or down by one unit roundoff of a dtype; empty if none is real.

    >>> rounded = rounded_inputs({"x": np.ones(4, np.float32), "ids": np.ones(4, np.int64)}, "float32")
    >>> float(np.abs(rounded["x"] - 1).max()) * 2**24, rounded["ids"].tolist()
    (1.0, [1, 1, 1, 1])
    """
    if not any(array.dtype.kind == "f" for array in inputs.values()):
        return {}
    random, roundoff = np.random.default_rng(0), precision_of(dtype).unit_roundoff
    return {
        name: array * (1 + roundoff * random.choice((-1.0, 1.0), array.shape)) if array.dtype.kind == "f" else array
        for name, array in inputs.items()
    }


def _wider_copy(model: Any, dtype: str) -> Any:
    """The model in a wider dtype. MemoryError if it needs more than its share of the available memory."""
    import torch

    needed, available = float_count(model) * getattr(torch, dtype).itemsize, available_memory()
    if available is not None and needed > MEMORY_SHARE * available:
        raise MemoryError(
            f"its weights take {needed / 1e9:.1f} GB, more than {MEMORY_SHARE:.0%} of the {available / 1e9:.1f} GB "
            "of memory that are available"
        )
    return in_dtype(model, dtype)


def available_memory() -> int | None:
    """The bytes of memory that are available to this process; None if the system does not say."""
    try:
        lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return _physical_memory()
    try:
        limit, used = (int(path.read_text()) for path in LIMITS)
    except (OSError, ValueError):  # no control group, or one without a limit: "max"
        return available
    return min(available, max(limit - used, 0))


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
