"""The verdict on an output of a file, by the rule of `precision.py`: the only comparison of real numbers.

Arrays of outputs, hidden states, logits of texts and margins of tokens are evidence of the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from attrs import evolve, frozen

from onnxfn.check.verdict.exact_outputs import NoReference
from onnxfn.check.verdict.norms import NO_ERROR, Error, Norms, larger
from onnxfn.check.verdict.precision import OUTLIER, PEAK, Precision, precision_of
from onnxfn.specs.algebra.dummies import Array

ExactArray = Callable[[], tuple[str, Array]]
"""Computes an array of PyTorch in a wider dtype: the name of the dtype, and the array. It may raise NoReference."""

OwnError = Callable[[], Norms]
"""Computes the norms of PyTorch's own error for other inputs. It may raise NoReference."""


@frozen
class Comparison:
    """The comparison of one output in one case.

    Attributes:
        output: The name of the output.
        case: The name of the case, with its sizes.
        shape: The shape of the output.
        max_abs: The largest difference from the reference.
        max_rel: The same, relative to the scale of the output.
        tolerance: The largest difference that is allowed for an element of the output's scale.
        passed: Whether the output agrees.
        own_error: PyTorch's own largest error, where the exact reference was computed.
        reference: What the output was compared with, and why.
        norms: The norms of the error, where the exact reference was computed and decides.
        own_norms: Those of PyTorch's own error.
        within_own_error: Whether the output differs, but PyTorch itself is as far away from float64 by the same rule:
            rounding explains the difference, and a fault may be hidden in it.
    """

    output: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool
    own_error: float | None = None
    reference: str = ""
    norms: Norms | None = None
    own_norms: Norms | None = None
    within_own_error: bool = False


@frozen(eq=False)
class Evidence:
    """What decides whether an output agrees with PyTorch's.

    Attributes:
        dtype: The float dtype of the export.
        rms: The scale of the output.
        expected: PyTorch's array in that dtype.
        error: From an array of PyTorch to the error of the file against it.
        own: From PyTorch's array in a wider dtype to PyTorch's own error.
        exact: Computes PyTorch's array in a wider dtype.
        others: From that array to functions that compute PyTorch's own error for other inputs, the cheapest first.
    """

    dtype: str
    rms: float
    expected: Array
    error: Callable[[Array], Error]
    own: Callable[[Array], Error]
    exact: ExactArray
    others: Callable[[Array], Iterable[OwnError]] = lambda _: ()


def verdict(evidence: Evidence) -> Comparison:
    """The comparison by the rule of `precision.py`; by scale if there is no exact reference."""
    precision, difference = precision_of(evidence.dtype), evidence.error(evidence.expected)
    by = f"PyTorch in {evidence.dtype}"
    if difference.norms <= always_allowed(precision):
        return judged(difference, always_allowed(precision), evidence.rms, f"{by}; float64 was not needed")
    try:
        return by_exact(evidence, precision)
    except NoReference as problem:
        by_scale = judged(difference, allowed_by_scale(precision), evidence.rms, f"{by}, by scale: {problem}")
        if problem.own is None:
            return by_scale
        is_within = difference.norms <= allowed(precision, problem.own) and not by_scale.passed
        return evolve(by_scale, own_error=problem.own.peak * evidence.rms, within_own_error=is_within)


def by_exact(evidence: Evidence, precision: Precision) -> Comparison:
    """The comparison of the error of a file with PyTorch's own, which is that for other inputs where that is larger.

    NoReference if there is no exact reference, or if PyTorch's own error is too large for rounding.
    """
    wider, exact = evidence.exact()
    own, error, least = evidence.own(exact), evidence.error(exact), NO_ERROR
    norms, by = rounding(precision, own.norms, wider), f"PyTorch in {wider}"
    result = judged(error, allowed(precision, norms), evidence.rms, by)
    for other in evidence.others(exact):
        if result.passed:
            break
        with suppress(NoReference):  # these may be inputs of another kind, such as a mask of 0.0 and 1.0
            least = larger(least, rounding(precision, other(), wider))
            norms = larger(norms, least)
            result = judged(error, allowed(precision, norms), evidence.rms, by)
    own_error = max(own.largest, least.peak * evidence.rms)
    return evolve(result, own_error=own_error, norms=error.norms, own_norms=norms)


def judged(error: Error, bound: Norms, rms: float, reference: str) -> Comparison:
    """The comparison of an error with its bound, for an output of this scale."""
    passed = error.norms <= bound
    return Comparison("", "", (), error.largest, error.norms.peak, bound.peak * rms, passed, reference=reference)


def always_allowed(precision: Precision) -> Norms:
    """The norms that the difference from PyTorch may have whatever PyTorch's own error is."""
    return _with_peak(precision.agreement * precision.unit_roundoff)


def allowed(precision: Precision, own: Norms) -> Norms:
    """The norms that the error of a graph may have, from those of PyTorch's own error."""
    floor = _with_peak(precision.floor * precision.unit_roundoff)
    return Norms(precision.factor * own.rms + floor.rms, precision.factor * own.peak + floor.peak)


def allowed_by_scale(precision: Precision) -> Norms:
    """The norms that the difference from PyTorch may have where no exact reference can run."""
    return _with_peak(precision.by_scale * precision.unit_roundoff)


def _with_peak(rms: float) -> Norms:
    """Bounds of both norms, from that of the root mean square."""
    return Norms(rms, PEAK * rms)


def rounding(precision: Precision, own: Norms, wider: str) -> Norms:
    """The norms of PyTorch's own error. NoReference if one of them is too large for rounding."""
    largest = precision.factor * allowed_by_scale(precision).rms
    if own <= Norms(largest, OUTLIER * largest):
        return own
    size = f"{own.rms:.1e} of the scale, and by {own.peak:.1e} in an element"
    raise NoReference(f"in {wider} the model itself differs by {size}, more than by rounding", own)
