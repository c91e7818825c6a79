"""Compares one output of ONNX Runtime with PyTorch's: by the rule of `precision.py`, or by the tolerance of a spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.exact_outputs import NoReference
from onnxfn.check.norms import NO_ERROR, Norms, Scale, larger, largest, scale_of
from onnxfn.check.precision import PEAK, Precision, precision_of
from onnxfn.check.valid_elements import Select, all_elements
from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import PlannedSpec
from onnxfn.specs.reports import Tick, no_tick

Exact = Callable[[], tuple[str, Array]]
"""Computes the exact array of an output: the name of its dtype, and the array. It may raise NoReference."""


UsualError = Callable[[], Norms]
"""Computes the norms of PyTorch's own error in an output, over several inputs. It may raise NoReference."""

FEW_ELEMENTS = 64
"""In an output of at most so many elements PyTorch's own error may be small by luck."""


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


def compare(
    spec: PlannedSpec,
    output: str,
    case: str,
    actual: Array,
    expected: Array,
    select: Select = all_elements,
    exact: Exact | None = None,
    exact_of_rounded: Exact | None = None,
    usual_errors: Sequence[UsualError] = (),
    own_elsewhere: Norms = NO_ERROR,
    tick: Tick = no_tick,
) -> Comparison:
    """Compares ONNX Runtime's array of an output with PyTorch's.

    Infinities and NaN must be the same in both, and numbers that stand for infinity nearly so. Integers must be equal.
    Arrays that differ in shape or kind of number never agree. Other elements agree by the rule of `precision.py`, or,
    if the spec has a tolerance, if `|actual - expected| <= atol * max(1, scale) + rtol * |expected|`.

    Args:
        spec: The planned spec: its tolerances and its float dtype.
        output: The name of the output.
        case: The name of the case, with its sizes.
        actual: ONNX Runtime's array.
        expected: PyTorch's array in the dtype of the export, as float32 if it holds real numbers.
        select: Selects the elements that are compared.
        exact: Computes the exact array, if it is needed. None: there is none.
        exact_of_rounded: Computes the exact array for inputs that are rounded. None: no input has a float dtype.
        usual_errors: Each computes PyTorch's own error for more of other inputs of these sizes.
        own_elsewhere: The largest norms of PyTorch's own error in this output in the cases before.
        tick: Is called between the steps, each of which takes a few passes over the arrays.
    """
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        types = f"{actual.dtype}{list(actual.shape)} where PyTorch gives {expected.dtype}{list(expected.shape)}"
        return Comparison(output, f"{case}: {types}", actual.shape, np.inf, np.inf, 0.0, passed=False)
    spec = _in_half(spec) if expected.dtype == np.float16 else spec
    first = select(actual).astype(np.float64)
    tick()
    pair = _Pair(spec, first, select(expected).astype(np.float64), tick)
    tick()
    if expected.dtype.kind != "f":
        judged = _equal(pair)
    elif has_tolerance(spec):
        judged = _within_tolerance(pair)
    else:
        judged = _by_arithmetic(pair, select, exact, exact_of_rounded, usual_errors, own_elsewhere)
    return evolve(judged, output=output, case=case, shape=actual.shape)


def _in_half(spec: PlannedSpec) -> PlannedSpec:
    """The spec with the precision of an output in float16, which a model in another dtype may have."""
    return evolve(spec, target=evolve(spec.target, float_dtype="float16"))


def has_tolerance(spec: PlannedSpec) -> bool:
    """Whether a spec has a tolerance of its own, which replaces the rule of `precision.py`."""
    return spec.check.atol is not None or spec.check.rtol is not None


@frozen
class _Pair:
    """The elements of an output that are compared, in float64: ONNX Runtime's and PyTorch's."""

    spec: PlannedSpec
    actual: Array
    expected: Array
    tick: Tick = no_tick

    @property
    def dtype(self) -> str:
        return self.spec.target.float_dtype or "float32"

    @property
    def precision(self) -> Precision:
        return precision_of(self.dtype)


@frozen
class _Ordinary:
    """The ordinary elements of an output: PyTorch's are finite there, and stand for no infinity."""

    actual: Array
    expected: Array
    scale: Scale
    tick: Tick = no_tick


def _equal(pair: _Pair) -> Comparison:
    distances = _distances(pair.actual, pair.expected)
    largest = float(distances.max(initial=0.0))
    return _comparison(largest, largest / max(scale_of(pair.expected), 1.0), 0.0, passed=largest == 0)


def _within_tolerance(pair: _Pair) -> Comparison:
    """The comparison by the tolerance of the spec; a part of it that is None is 0."""
    check, ordinary = pair.spec.check, _is_ordinary(pair)
    scale = max(scale_of(pair.expected[ordinary]), 1.0)
    atol, rtol = (check.atol or 0.0) * scale, check.rtol or 0.0
    distances = _distances(pair.actual, pair.expected)
    agree = np.where(np.isfinite(pair.expected), distances <= atol + rtol * np.abs(pair.expected), distances == 0)
    largest = float(distances[ordinary].max(initial=0.0))
    reference = f"PyTorch in {pair.dtype}, by the tolerance of the spec"
    return _comparison(largest, largest / scale, atol, passed=bool(agree.all()), reference=reference)


def _by_arithmetic(
    pair: _Pair,
    select: Select,
    exact: Exact | None,
    exact_of_rounded: Exact | None,
    usual_errors: Sequence[UsualError],
    own_elsewhere: Norms,
) -> Comparison:
    """The comparison by the rule of `precision.py`; by scale if there is no exact reference."""
    ordinary = _is_ordinary(pair)
    elements = _ordinary_elements(pair, ordinary)
    agreement = always_allowed(pair.precision)
    pair.tick()
    difference = elements.actual - elements.expected
    norms = elements.scale.norms(difference, pair.tick)
    if norms <= agreement:
        reference = f"PyTorch in {pair.dtype}; float64 was not needed"
        judged = _judged(elements, difference, agreement, reference)
    elif norms <= allowed_by_case_before(pair.precision, own_elsewhere):
        reference = f"PyTorch in {pair.dtype}; its own error in another case allows the difference"
        judged = _judged(elements, difference, allowed_by_case_before(pair.precision, own_elsewhere), reference)
    else:
        try:
            wider, values = _exact_elements(pair, select, ordinary, exact)
            judged = _by_exact(pair, elements, wider, values)
            for other_error in _other_errors(pair, elements, values, select, exact_of_rounded, usual_errors):
                if not judged.passed:
                    with suppress(NoReference):
                        judged = _by_exact(pair, elements, wider, values, other_error())
        except NoReference as problem:
            judged = _by_scale(pair, elements, difference, problem)
    if not _special_agree(pair, ordinary, agreement):
        return evolve(judged, max_abs=np.inf, passed=False, norms=None, own_norms=None, within_own_error=False)
    return judged


def _by_exact(pair: _Pair, elements: _Ordinary, wider: str, exact: Array, least: Norms = NO_ERROR) -> Comparison:
    """The comparison of the error of a graph with PyTorch's own, which counts as `least` at least."""
    pair.tick()
    own = elements.expected - exact
    pair.tick()
    norms = larger(rounding(pair.precision, elements.scale.norms(own, pair.tick), wider), least)
    own_error = max(largest(own, pair.tick), least.peak * elements.scale.rms)
    error, bound = elements.actual - exact, allowed(pair.precision, norms)
    judged = _judged(elements, error, bound, f"PyTorch in {wider}", own_error=own_error)
    return evolve(judged, norms=elements.scale.norms(error, pair.tick), own_norms=norms)


def _by_scale(pair: _Pair, elements: _Ordinary, difference: Array, problem: NoReference) -> Comparison:
    """The comparison with PyTorch's own array, for the reason `problem`; PyTorch's own error allows nothing."""
    reference = f"PyTorch in {pair.dtype}, by scale: {problem}"
    judged = _judged(elements, difference, allowed_by_scale(pair.precision), reference)
    if problem.own is None:
        return judged
    is_within = elements.scale.norms(difference, pair.tick) <= allowed(pair.precision, problem.own)
    own_error = problem.own.peak * elements.scale.rms
    return evolve(judged, own_error=own_error, within_own_error=is_within and not judged.passed)


def _other_errors(
    pair: _Pair,
    elements: _Ordinary,
    values: Array,
    select: Select,
    exact_of_rounded: Exact | None,
    usual_errors: Sequence[UsualError],
) -> Iterator[UsualError]:
    """Functions that compute other measures of PyTorch's own error, for where its error in this case is too small.

    The first is the effect of rounded inputs; these may be other inputs, such as a mask of 0.0 and 1.0: NoReference.
    """

    def effect_of_rounded() -> Norms:
        wider, moved = _exact_elements(pair, select, _is_ordinary(pair), exact_of_rounded)
        return rounding(pair.precision, elements.scale.norms(moved - values), wider)

    def of_other_inputs(usual_error: UsualError) -> Norms:
        return rounding(pair.precision, usual_error(), "a wider dtype, for other inputs,")

    if exact_of_rounded is not None:
        yield effect_of_rounded
    if values.size <= FEW_ELEMENTS:
        yield from (partial(of_other_inputs, usual_error) for usual_error in usual_errors)


def own_norms(spec: PlannedSpec, expected: Array, exact: Array) -> Norms:
    """The norms of PyTorch's own error in an output: that of its ordinary elements.

    NoReference if the exact array has another shape.
    """
    exact = _of_same_shape(exact, expected, "a wider dtype")
    pair = _Pair(spec, exact.astype(np.float64), expected.astype(np.float64))
    elements = _ordinary_elements(pair, _is_ordinary(pair))
    return elements.scale.norms(elements.expected - elements.actual)


def _exact_elements(pair: _Pair, select: Select, ordinary: Array, exact: Exact | None) -> tuple[str, Array]:
    """The name of the wider dtype, and the exact values of the ordinary elements. Raises NoReference."""
    if exact is None:
        raise NoReference("there is no model in a wider dtype")
    wider, array = exact()
    pair.tick()
    values = _of_same_shape(select(array).astype(np.float64), ordinary, wider)
    pair.tick()
    values = _elements(values, ordinary)
    pair.tick()
    if not np.isfinite(values).all():
        raise NoReference(f"{wider} has infinities or NaN where {pair.dtype} has numbers")
    return wider, values


def _of_same_shape(array: Array, other: Array, wider: str) -> Array:
    """An array in a wider dtype. NoReference if it has another shape: rounding decides how much the model returns."""
    if array.shape != other.shape:
        raise NoReference(f"{wider} gives {list(array.shape)} where the dtype of the export gives {list(other.shape)}")
    return array


def _judged(
    elements: _Ordinary, error: Array, bound: Norms, reference: str, own_error: float | None = None
) -> Comparison:
    """The comparison of an error with its bound."""
    norms = elements.scale.norms(error, elements.tick)
    return _comparison(
        largest(error, elements.tick),
        norms.peak,
        bound.peak * elements.scale.rms,
        passed=norms <= bound,
        reference=reference,
        own_error=own_error,
    )


def _comparison(max_abs: float, max_rel: float, tolerance: float, **others: Any) -> Comparison:
    return Comparison("", "", (), max_abs, max_rel, tolerance, **others)


def _is_ordinary(pair: _Pair) -> Array:
    ordinary: Array = np.abs(pair.expected) < pair.precision.largest_ordinary
    return ordinary


def _ordinary_elements(pair: _Pair, ordinary: Array) -> _Ordinary:
    actual = _elements(pair.actual, ordinary)
    pair.tick()
    expected = _elements(pair.expected, ordinary)
    pair.tick()
    return _Ordinary(actual, expected, Scale.of(expected, pair.precision), pair.tick)


def _elements(array: Array, chosen: Array) -> Array:
    """The chosen elements of an array; they are copied only if some are not chosen."""
    return array.reshape(-1) if chosen.all() else array[chosen]


def always_allowed(precision: Precision) -> Norms:
    """The norms that the difference from PyTorch may have whatever PyTorch's own error is."""
    return _with_peak(precision.agreement * precision.unit_roundoff)


def allowed(precision: Precision, own: Norms) -> Norms:
    """The norms that the error of a graph may have, from those of PyTorch's own error."""
    floor = _with_peak(precision.floor * precision.unit_roundoff)
    return Norms(precision.factor * own.rms + floor.rms, precision.factor * own.peak + floor.peak)


def allowed_by_case_before(precision: Precision, own: Norms) -> Norms:
    """The norms that the difference from PyTorch may have if PyTorch's own error in a case before has the norms `own`.

    `allowed` bounds the error of a graph, which is the difference from PyTorch and PyTorch's own error together. So the
    factor is smaller by 1, and nothing agrees that would not agree with the exact reference.
    """
    floor = _with_peak(precision.floor * precision.unit_roundoff)
    factor = precision.factor - 1
    return Norms(factor * own.rms + floor.rms, factor * own.peak + floor.peak)


def allowed_by_scale(precision: Precision) -> Norms:
    """The norms that the difference from PyTorch may have where no exact reference can run."""
    return _with_peak(precision.by_scale * precision.unit_roundoff)


def _with_peak(rms: float) -> Norms:
    """Bounds of both norms, from that of the root mean square."""
    return Norms(rms, PEAK * rms)


def rounding(precision: Precision, own: Norms, wider: str) -> Norms:
    """The norms of PyTorch's own error. NoReference if it is too large for rounding."""
    if own.rms > precision.factor * allowed_by_scale(precision).rms:
        text = f"in {wider} the model itself differs by {own.rms:.1e} of the scale, more than by rounding"
        raise NoReference(text, own)
    return own


def _special_agree(pair: _Pair, ordinary: Array, bound: Norms) -> bool:
    """Whether infinities and NaN are the same, and numbers that stand for infinity differ by rounding alone."""
    pair.tick()
    actual, expected = pair.actual[~ordinary], pair.expected[~ordinary]
    distances = _distances(actual, expected)
    return bool(np.where(np.isfinite(expected), distances <= bound.peak * np.abs(expected), distances == 0).all())


def _distances(actual: Array, expected: Array) -> Array:
    """The distance of each element: 0 if both are the same infinity or both NaN, infinite if only one is."""
    with np.errstate(invalid="ignore"):
        distances: Array = np.abs(actual - expected)
    undefined = np.isnan(distances)
    if undefined.any():
        left, right = actual[undefined], expected[undefined]
        distances[undefined] = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.inf)
    return distances
