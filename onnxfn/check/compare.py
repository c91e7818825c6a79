"""Compares one output of ONNX Runtime with PyTorch's, within the tolerance of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from attrs import frozen

from onnxfn.check.valid_elements import Select, all_elements
from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import PlannedSpec

LARGEST_ORDINARY = 1e30
"""Larger numbers stand for minus infinity (masked scores) and do not count for the scale of a tensor."""

# A graph in half precision is compared with the model in full precision, so the rounding of the graph counts. A step
# of float16 is 2**13 steps of float32, a step of bfloat16 2**16. `atol` grows by an eighth of that, `rtol` by a 64th.
ROUNDING: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"float32": (1.0, 1.0), "float16": (2.0**10, 2.0**7), "bfloat16": (2.0**13, 2.0**10)}
)
"""From a float dtype to the factors of `atol` and `rtol`."""


@frozen
class Comparison:
    """The comparison of one output in one case: the shape, the largest differences, and whether they are tolerated.

    `max_rel` is `max_abs` relative to the scale of the tensor. `tolerance` is the absolute part of the tolerance.
    """

    output: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool


def compare(
    spec: PlannedSpec, output: str, case: str, actual: Array, expected: Array, select: Select = all_elements
) -> Comparison:
    """Compares ONNX Runtime's array of an output with PyTorch's.

    An element agrees if `|actual - expected| <= atol * max(1, r) + rtol * |expected|`. r is the root mean square of the
    expected elements: rounding grows with the scale of a tensor, also for its elements near 0. Infinities and NaN
    must be the same in both. Integers must be equal. Arrays that differ in shape or kind of number never agree.

    Args:
        spec: The planned spec: its tolerances and its float dtype.
        output: The name of the output.
        case: The name of the case, with its sizes.
        actual: ONNX Runtime's array.
        expected: PyTorch's array, in float32 if it holds real numbers.
        select: Selects the elements that are compared.
    """
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        types = f"{actual.dtype}{list(actual.shape)} where PyTorch gives {expected.dtype}{list(expected.shape)}"
        return Comparison(output, f"{case}: {types}", actual.shape, np.inf, np.inf, 0.0, passed=False)
    actual_values, expected_values = select(actual).astype(np.float64), select(expected).astype(np.float64)
    finite = np.isfinite(expected_values)
    ordinary = finite & (np.abs(expected_values) < LARGEST_ORDINARY)
    all_ordinary = bool(ordinary.all())
    scale = scale_of(expected_values if all_ordinary else expected_values[ordinary])
    absolute, relative = (0.0, 0.0) if expected.dtype.kind != "f" else ROUNDING[spec.target.float_dtype or "float32"]
    atol, rtol = (spec.check.atol or 0.0) * absolute * scale, (spec.check.rtol or 0.0) * relative
    distances = _distances(actual_values, expected_values)
    agree = np.where(finite, distances <= atol + rtol * np.abs(expected_values), distances == 0)
    largest = float((distances if all_ordinary else distances[ordinary]).max(initial=0.0))
    return Comparison(output, case, actual.shape, largest, largest / scale, atol, bool(agree.all()))


def scale_of(values: Array) -> float:
    """The root mean square of values, at least 1.

    >>> scale_of(np.array([3.0, -3.0])), scale_of(np.array([0.1]))
    (3.0, 1.0)
    """
    return max(1.0, float(np.sqrt(np.mean(values**2)))) if values.size else 1.0


def _distances(actual: Array, expected: Array) -> Array:
    """The distance of each element: 0 if both are the same infinity or both NaN, infinite if only one is."""
    with np.errstate(invalid="ignore"):
        distances: Array = np.abs(actual - expected)
    undefined = np.isnan(distances)
    if undefined.any():
        left, right = actual[undefined], expected[undefined]
        distances[undefined] = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.inf)
    return distances
