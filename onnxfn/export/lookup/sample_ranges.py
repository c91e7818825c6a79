"""The values of dummies that are like a tensor of a sample, and beyond it: ranges that were given, found or assumed."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import Generator
from onnxfn.specs.sample_fills import SCALES

Range = tuple[float, float]
"""The smallest number, and the end: for integers the first that does not occur, as in `range`."""

SMALL_DTYPE_BYTES = 2
"""An integer dtype of so many bytes is tried over all its numbers."""

REFUSED = "assumed: the range of the sample, since the module refuses others"


def specified_range(name: str, tensor: Any, limits: Range) -> Generator:
    """The generator for a range that the user gave. InvalidSpec if it is empty, or not a range of the dtype."""
    kind = _values(tensor).dtype.kind
    is_pair = isinstance(limits, tuple) and len(limits) == 2 and all(isinstance(end, (int, float)) for end in limits)  # noqa: PLR2004
    if kind == "b" or not is_pair or limits[0] >= limits[1]:
        raise InvalidSpec(
            f"the range of {name!r} is {limits!r}; write (low, high), two numbers, for a tensor of numbers"
        )
    low, high = limits
    if kind == "f":
        return Generator(name, "uniform", {"low": float(low), "high": float(high)}, "given")
    return Generator(name, "integers", {"low": int(low), "high": int(high)}, "given")


def indexed_range(name: str, tensor: Any, limits: tuple[int, int]) -> Generator:
    """The generator for a range of indices that runs of the module showed; it is below 0 only if the sample is."""
    low, high = limits
    values = _values(tensor)
    smallest = int(values.min()) if values.size else 0
    return Generator(
        name, "integers", {"low": min(max(low, 0), smallest), "high": high}, f"found: it indexes {high - low} elements"
    )


def assumed_range(name: str, tensor: Any) -> Generator:
    """The generator for values beyond a sample: both values of a mask, other scales of real numbers, more integers."""
    values = _values(tensor)
    mask = _mask_values(values)
    if mask is not None:
        words = " and ".join(map(str, sorted(mask, key=float)))
        return Generator(name, "two_values", {"first": mask[0], "second": mask[1]}, f"assumed: {words}, as in a mask")
    if values.dtype.kind == "f":
        low, high = _float_range(values)
        return Generator(name, "scaled", {"low": low, "high": high}, f"assumed: the sample at {len(SCALES)} scales")
    return _integers(name, values)


def sample_range(name: str, tensor: Any) -> Generator:
    """The generator for values between the smallest and the largest of a sample."""
    values = _values(tensor)
    if values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        return Generator(name, "uniform", {"low": low, "high": high}, REFUSED)
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return Generator(name, "integers", {"low": low, "high": high + 1}, REFUSED)


def _values(tensor: Any) -> Array:
    """The values of a tensor; numpy has no bfloat16."""
    plain = tensor.detach().cpu().resolve_conj()
    values: Array = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
    return values


def _mask_values(values: Array) -> tuple[float | str, float | str] | None:
    """The two values of a mask, that of its first element first: 0 and 1, or 0 and -inf; None if it is no mask.

    A tensor of zeros is a mask if it holds bools or integers: real zeros may stand for any number, as in a first state.
    """
    unique = set(np.unique(values).tolist()) if values.size > 1 or values.dtype.kind == "b" else {None}
    first = values.flat[0].item() if values.size else 0
    if -np.inf in unique and unique <= {0.0, -np.inf}:
        return (0, "-inf") if first == 0 else ("-inf", 0)
    if unique <= {0, 1} and not (unique == {0} and values.dtype.kind == "f"):
        return int(first), 1 - int(first)
    return None


def _float_range(values: Array) -> Range:
    """The range of real numbers, which keep their sign. A single number gets others around it."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if low < high:
        return low, high
    return (-1.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)


def _integers(name: str, values: Array) -> Generator:
    """All integers of a small dtype, else the range of the sample once more at each end; none below 0 if none is."""
    limits = np.iinfo(values.dtype)
    smallest, largest = (int(values.min()), int(values.max())) if values.size else (0, 1)
    least = 0 if smallest >= 0 else int(limits.min)
    if values.dtype.itemsize <= SMALL_DTYPE_BYTES:
        arguments = {"low": least, "high": int(limits.max) + 1}
        return Generator(name, "integers", arguments, f"assumed: every {values.dtype.name}")
    span = max(largest - smallest, 1)
    arguments = {"low": max(smallest - span, least), "high": min(largest + span, int(limits.max)) + 1}
    return Generator(name, "integers", arguments, "assumed: the range of the sample, and as much at its ends")
