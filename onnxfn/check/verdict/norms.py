"""The size of a difference between two arrays, relative to the scale of an output."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import frozen

from onnxfn.check.verdict.precision import Precision
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import Tick, no_tick

BLOCK = 1 << 22
"""Elements that are compared between two calls of `tick`."""


def blocks(array: Array) -> Iterator[Array]:
    """The elements of an array in its order, at most `BLOCK` of them at a time."""
    flat = array.reshape(-1)
    return (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))


@frozen
class Norms:
    """The size of a difference between two arrays, relative to the scale of the output."""

    rms: float
    peak: float

    def __le__(self, bound: Norms) -> bool:
        return self.rms <= bound.rms and self.peak <= bound.peak


NO_ERROR = Norms(0.0, 0.0)


@frozen
class Error:
    """The size of a difference between two arrays.

    Attributes:
        largest: The largest size of an element.
        norms: Its norms, relative to the scale of the output.
    """

    largest: float
    norms: Norms


@frozen
class Scale:
    """The scale of an output: the root mean square of PyTorch's elements, and that or its own size for each element."""

    rms: float
    weights: Array

    @staticmethod
    def of(expected: Array, precision: Precision) -> Scale:
        """The scale of PyTorch's elements; it is at least the smallest scale of the dtype."""
        rms = max(scale_of(expected), precision.smallest)
        return Scale(rms, np.maximum(np.abs(expected), rms))

    def error(self, difference: Array, tick: Tick = no_tick) -> Error:
        """The size of a difference; NaN is infinite. `tick` is called for each block of elements."""
        squares = peak = largest = 0.0
        for block, weights in zip(blocks(difference), blocks(self.weights), strict=True):
            tick()
            sizes = np.nan_to_num(np.abs(block), nan=np.inf)
            squares += float(np.sum(sizes**2))
            largest = max(largest, float(sizes.max()))
            tick()
            peak = max(peak, float((sizes / weights).max()))
        rms = float(np.sqrt(squares / max(difference.size, 1))) / self.rms
        return Error(largest, Norms(rms, peak))


def scale_of(values: Array) -> float:
    """The root mean square of values; 0 if there are none.

    >>> scale_of(np.array([3.0, -3.0])), scale_of(np.array([0.1]))
    (3.0, 0.1)
    """
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def larger(*norms: Norms) -> Norms:
    """The larger of each of the two norms."""
    return Norms(max(each.rms for each in norms), max(each.peak for each in norms))
