"""One answer of ONNX Runtime against PyTorch's: how far it is off, and whether that is rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from attrs import frozen

from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import PlannedSpec

LARGEST_ORDINARY = 1e30
"""Beyond this a number stands for minus infinity, as masked scores do, and says nothing of the scale of a tensor."""

# A graph in half precision is measured against the model in full precision, so its own rounding counts. A step of
# float16 is 2**13 steps of float32, and one of bfloat16 2**16: an eighth of that is allowed, of each element a 64th.
ROUNDING: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"float32": (1.0, 1.0), "float16": (2.0**10, 2.0**7), "bfloat16": (2.0**13, 2.0**10)}
)


@frozen
class Comparison:
    """One output in one case: the shape, the figures, and whether the case was passed."""

    output: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool


def compare(
    spec: PlannedSpec,
    output: str,
    case: str,
    answer: Array,
    truth: Array,
    judged: Callable[[Array], Array] = lambda made: made,
) -> Comparison:
    """One answer of ONNX Runtime against PyTorch's.

    An element agrees when it is at most `atol * max(1, r) + rtol * |truth|` away, where r is the root mean square of
    the truth: rounding grows with the scale of a tensor, and an element near 0 is as uncertain as its neighbours.
    Numbers that are not finite must be the same. Another shape, or another type of number, never agrees. `judged`
    picks the elements that count.
    """
    if answer.shape != truth.shape or answer.dtype.kind != truth.dtype.kind:
        told = f"{case}: {answer.dtype}{list(answer.shape)} where PyTorch gives {truth.dtype}{list(truth.shape)}"
        return Comparison(output, told, answer.shape, np.inf, np.inf, 0.0, passed=False)
    got, wanted = judged(answer).astype(np.float64), judged(truth).astype(np.float64)
    finite = np.isfinite(wanted)
    ordinary = finite & (np.abs(wanted) < LARGEST_ORDINARY)
    exact = truth.dtype.kind != "f"
    usual = bool(ordinary.all())
    scale = scale_of(wanted if usual else wanted[ordinary])
    absolute, relative = (0.0, 0.0) if exact else ROUNDING[spec.target.float_dtype or "float32"]
    atol, rtol = (spec.check.atol or 0.0) * absolute * scale, (spec.check.rtol or 0.0) * relative
    apart = _distances(got, wanted)
    agree = np.where(finite, apart <= atol + rtol * np.abs(wanted), apart == 0)
    worst = float((apart if usual else apart[ordinary]).max(initial=0.0))
    return Comparison(output, case, answer.shape, worst, worst / scale, atol, bool(agree.all()))


def scale_of(ordinary: Array) -> float:
    """The root mean square of ordinary numbers, or 1 where that is less."""
    return max(1.0, float(np.sqrt(np.mean(ordinary**2)))) if ordinary.size else 1.0


def _distances(got: Array, wanted: Array) -> Array:
    """How far each element is off: 0 for the same infinity and for two that are no number, infinite for one that is."""
    with np.errstate(invalid="ignore"):
        distance: Array = np.abs(got - wanted)
    strange = np.isnan(distance)
    if strange.any():
        one, other = got[strange], wanted[strange]
        distance[strange] = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.inf)
    return distance
