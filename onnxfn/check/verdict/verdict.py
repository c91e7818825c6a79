"""The verdict on an output of a file: the only comparison of real numbers.

Three arrays belong to an output in a case: `actual` by ONNX Runtime, `expected` by PyTorch in the dtype of the export,
and `exact` by PyTorch in float64, from the same weights before any conversion. The error of a graph is the norm of
`actual - exact`, PyTorch's own error that of `expected - exact`. A graph agrees if, in both of two norms,

    error <= factor * own_error + floor

The norms are the root mean square, which shows a fault in many elements, and the peak, which shows a fault in few
elements. Both are relative to the scale of the output: 1 is an error as large as the output.

Casts to fewer bits inside a model, such as of the embeddings of timesteps to float32, stay float64 in `exact`: rounding
there is a part of PyTorch's own error. It may be small by luck: then the largest of several roundings counts. At last
the largest own error of all cases counts. An own error that is too large for rounding allows nothing: a model may
choose differently in float64. Then float64 is not a reference. An own error is at least that of constants which the
file rounds, and that of long sums: see `roundings.py`.

PyTorch in float64 costs time and memory. It does not run if `norm(actual - expected) <= agreement`; `agreement` is at
least the floor. In most models such a difference is rounding, so the graph is not checked further. It does not run
either if `norm(actual - expected) <= (factor - 1) * own_error + floor` with an own error that is known before: the
error is at most this difference and PyTorch's own error together, so the rule allows it whatever float64 gives. A
difference that is refused where float64 cannot run does not pass by this.

Arrays of outputs, hidden states, logits of texts and margins of tokens are evidence of the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.models.forward import torch_outputs
from onnxfn.models.torch_modes import torch_operators
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import first_line, raise_no_memory
from onnxfn.specs.results.measurements import multiple
from onnxfn.specs.stored.reports import Tick, no_tick

# The largest of a million normally distributed numbers is 5 times their root mean square; MiniLM's up to 7 times.
PEAK = 8.0
"""The floor of the peak, as a multiple of that of the root mean square."""


@frozen
class Precision:
    """The precision of a float dtype, and the errors that are allowed in it.

    Attributes:
        unit_roundoff: The largest relative error of rounding one number to the dtype.
        smallest: The smallest scale of an output. float32: a unit roundoff of it is the smallest normal number, and
            smaller numbers are zero in some programs and not in others. float16: the smallest normal number.
        largest_ordinary: Larger numbers stand for minus infinity (masked scores) and do not count for the scale.
        factor: How many times PyTorch's own error the error of a graph may be.
        agreement: The difference from PyTorch that is always allowed, in unit roundoffs.
        floor: The error allowed beyond PyTorch's own if the difference exceeds `agreement`, in unit roundoffs.
        by_scale: The allowed difference from PyTorch without an exact reference, in unit roundoffs. If PyTorch's own
            error is `factor` times as large, the model computes other values in float64, and float64 is not a
            reference.
        wider: The dtypes that are exact in comparison, the best first.
    """

    unit_roundoff: float
    smallest: float
    largest_ordinary: float
    factor: float
    agreement: float
    floor: float
    by_scale: float
    wider: tuple[str, ...]


# Measured on tiny models of 13 architectures, on MiniLM and on SmolLM2, in all cases of the check (root mean squares):
# float32: PyTorch's own error is 0.5 to 30 unit roundoffs, and the error of a graph 0.3 to 1.7 times that. ONNX
#   Runtime has its own formulas for layer norms, exp, erf and tanh. 32 unit roundoffs settle MiniLM without float64.
#   A changed epsilon in one norm of BERT gives 33 to 43; PyTorch's own error is 4 to 7 there, so 8 is the floor.
# float16: PyTorch rounds after each operator, ONNX Runtime computes many operators in float32: 0.4 to 1.5 times. Each
#   graph rounds its output, by up to 1 unit roundoff. Noise of 1 % in one matrix makes 2 to 16 times.
# bfloat16: ONNX Runtime's CPU has nearly no kernels. Rounding follows the same rule as in float16.
# float64: PyTorch has no wider dtype, so outputs are compared with PyTorch's own, by scale. The numbers are float32's.
PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        "float32": Precision(2.0**-24, 2.0**-102, 1e30, 4.0, 32.0, 8.0, 2.0**10, ("float64",)),
        "float16": Precision(2.0**-11, 2.0**-14, 3e4, 2.0, 0.5, 0.5, 2.0**5, ("float64", "float32")),
        "bfloat16": Precision(2.0**-8, 2.0**-118, 1e30, 2.0, 0.5, 0.5, 2.0**4, ("float64", "float32")),
        "float64": Precision(2.0**-53, 2.0**-969, 1e300, 4.0, 32.0, 8.0, 2.0**10, ()),
    }
)
"""From a float dtype to its precision. No row of a model has numbers of its own."""


def precision_of(dtype: str | None) -> Precision:
    """The precision of a planned float dtype; None is float32."""
    return PRECISIONS[dtype or "float32"]


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

    def of_bound(self, bound: Norms) -> float:
        """The larger multiple of the norms of a bound: at most 1 within it."""
        return max(multiple(self.rms, bound.rms), multiple(self.peak, bound.peak))


NO_ERROR = Norms(0.0, 0.0)


@frozen
class Error:
    """The size of a difference between two arrays: its largest element, and its norms, relative to a scale."""

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
    """The root mean square of values; 0 if there are none."""
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def larger(*norms: Norms) -> Norms:
    """The larger of each of the two norms."""
    return Norms(max(each.rms for each in norms), max(each.peak for each in norms))


ExactOutputs = Callable[[Part, Mapping[str, Array]], tuple[str, tuple[Array, ...]]]
"""From a part and its inputs to the name of the wider dtype and PyTorch's outputs in it. It may raise NoReference."""


class NoReference(Exception):
    """PyTorch cannot compute the outputs in a wider dtype; `own`: its outputs there differ by more than rounding."""

    def __init__(self, message: str, own: Norms | None = None) -> None:
        super().__init__(message)
        self.own = own


@contextmanager
def no_reference(wider: str) -> Iterator[None]:
    """Raises NoReference for what the code of a model raises in a wider dtype; MemoryError comes through."""
    try:
        yield
    except Exception as error:
        raise_no_memory(error)
        raise NoReference(f"{wider} cannot run: {first_line(error)}") from error


@contextmanager
def no_casts_below(wider: Any) -> Iterator[None]:
    """A context in which operators of this thread return a torch dtype where a narrower float dtype is asked for."""
    import torch

    # A model may cast to float32 whatever its own dtype is, and to float16 although its own is float32.
    narrow = {each for each in (torch.float16, torch.bfloat16, torch.float32) if each.itemsize < wider.itemsize}

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        wide = {"dtype": wider} if named.get("dtype") in narrow else {}
        return operator(*arguments, **{**named, **wide})

    with torch_operators(run):
        yield


def exact_outputs(model: Any, dtype: str | None) -> ExactOutputs:
    """A function that computes PyTorch's outputs in the first wider dtype that runs; it keeps copies if small."""
    wider_copy = cache(lambda wider: in_dtype_if_small(model, wider))

    def outputs(part: Part, arrays: Mapping[str, Array]) -> tuple[str, tuple[Array, ...]]:
        import torch

        reasons: list[str] = []
        for wider in precision_of(dtype).wider:
            torch_dtype = getattr(torch, wider)
            try:
                with no_reference(wider), no_casts_below(torch_dtype):
                    return wider, torch_outputs(wider_copy(wider), part, arrays, torch_dtype)
            except NoReference as problem:
                reasons.append(str(problem))
        raise NoReference("; ".join(reasons) or f"there is no dtype wider than {dtype}")

    return outputs


ExactArray = Callable[[], tuple[str, Array]]
"""Computes an array of PyTorch in a wider dtype: the name of the dtype, and the array. It may raise NoReference."""


@frozen
class Comparison:
    """The comparison of one output in one case. Fields that `Difference` also has mean the same there.

    Attributes:
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

    @property
    def of_bound(self) -> float:
        """The largest difference as a multiple of what is allowed."""
        return multiple(self.max_abs, self.tolerance)


@frozen(eq=False)
class Evidence:
    """The evidence that decides whether an output agrees with PyTorch's array in the dtype of the export, `expected`.

    `rms`: the scale of the output. `error`: from an array of PyTorch to the error of the file against it. `own`: from
    PyTorch's array and that in a wider dtype, which `exact` computes, to PyTorch's own error. `roundings` compute
    PyTorch's array again, rounded otherwise. `known`: the largest own norms in the cases that were compared before.
    """

    dtype: str
    rms: float
    expected: Array
    error: Callable[[Array], Error]
    own: Callable[[Array, Array], Error]
    exact: ExactArray
    roundings: Sequence[ExactArray] = ()
    known: Norms = NO_ERROR


def verdict(evidence: Evidence) -> Comparison:
    """The comparison with PyTorch's own error; by scale if there is no exact reference."""
    precision, difference = precision_of(evidence.dtype), evidence.error(evidence.expected)
    by = f"PyTorch in {evidence.dtype}"
    if difference.norms <= always_allowed(precision):
        return judged(difference, always_allowed(precision), evidence.rms, f"{by}; float64 was not needed")
    by_known = allowed(evolve(precision, factor=precision.factor - 1), evidence.known)
    if difference.norms <= by_known and difference.norms <= allowed_by_scale(precision):
        return judged(difference, by_known, evidence.rms, f"{by}, by its own error that is known before")
    try:
        return _by_exact(evidence, precision)
    except NoReference as problem:
        by_scale = judged(difference, allowed_by_scale(precision), evidence.rms, f"{by}, by scale: {problem}")
        if problem.own is None:
            return by_scale
        is_within = difference.norms <= allowed(precision, problem.own) and not by_scale.passed
        return evolve(by_scale, own_error=problem.own.peak * evidence.rms, within_own_error=is_within)


def _by_exact(evidence: Evidence, precision: Precision) -> Comparison:
    """The comparison with PyTorch's own error, the largest of several roundings; NoReference if it is not rounding."""
    wider, exact = evidence.exact()
    own, error, least = evidence.own(evidence.expected, exact), evidence.error(exact), NO_ERROR
    norms, by = rounding(precision, own.norms, wider), f"PyTorch in {wider}"
    result = judged(error, allowed(precision, norms), evidence.rms, by)
    for rounded in evidence.roundings:
        # Twice, luck does not make PyTorch's own error so small.
        if result.passed or (least.rms and error.norms.rms > PEAK * allowed(precision, norms).rms):
            break
        with suppress(NoReference):  # another rounding may change a choice of the model
            least = larger(least, rounding(precision, evidence.own(rounded()[1], exact).norms, wider))
            norms = larger(norms, least)
            result = judged(error, allowed(precision, norms), evidence.rms, by)
    return evolve(result, own_error=max(own.largest, least.peak * evidence.rms), norms=error.norms, own_norms=norms)


def rounding_decides(comparisons: Sequence[Comparison]) -> bool:
    """Whether outputs differ in a case, and PyTorch in float64 is as far away from PyTorch as these are."""
    failed = [each for each in comparisons if not each.passed]
    return bool(failed) and all(each.within_own_error for each in failed)


def judged(error: Error, bound: Norms, rms: float, reference: str) -> Comparison:
    """The comparison of an error with its bound, for an output of this scale."""
    tolerance = tolerated(error.largest, error.norms.of_bound(bound), bound.peak * rms)
    return Comparison("", "", (), error.largest, error.norms.peak, tolerance, error.norms <= bound, reference=reference)


def tolerated(largest: float, of_bound: float, otherwise: float) -> float:
    """The largest difference at which an output is at its bound, if all of them grow alike; `otherwise` without one."""
    return largest / of_bound if 0 < of_bound < np.inf else otherwise


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
    # Few elements may amplify rounding. A pixel of a mask that PyTorch itself decides otherwise is further away.
    if own <= Norms(largest, PEAK * PEAK * largest):
        return own
    size = f"{own.rms:.1e} of the scale, and by {own.peak:.1e} in an element"
    raise NoReference(f"in {wider} the model itself differs by {size}, more than by rounding", own)
