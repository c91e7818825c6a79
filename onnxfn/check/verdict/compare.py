"""The comparison of an output with PyTorch's: which elements count, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.cases.references import symbol_sizes
from onnxfn.check.verdict.verdict import (
    NO_ERROR,
    Comparison,
    Error,
    Evidence,
    ExactArray,
    NoReference,
    Norms,
    Scale,
    always_allowed,
    precision_of,
    scale_of,
    tolerated,
    verdict,
)
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axes import symbols, terms
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS
from onnxfn.specs.plan.cache_tensors import BUFFER
from onnxfn.specs.plan.check_cases import past_lengths
from onnxfn.specs.records import OutputSpec
from onnxfn.specs.stored.reports import Tick, no_tick

Select = Callable[[Array], Array]
"""From an array to its compared elements."""


def all_elements(array: Array) -> Array:
    """The array itself."""
    return array


def valid_elements(spec: PlannedSpec, output: OutputSpec, inputs: Mapping[str, Array]) -> Select:
    """Selects the elements of an output at tokens, by the padding mask among the inputs of a case.

    The spec names the mask. Its last axis is a length, or a past plus a length. The axis of an output has the same
    length, or the logits of the last tokens. An axis that is shorter than the mask has the last tokens of the mask. A
    longer axis begins with elements that are not padding. Without a mask or such an axis, all elements are selected.
    """
    mask_input = next((input_ for input_ in spec.inputs if input_.name == spec.check.mask_input), None)
    if mask_input is None:
        return all_elements
    batch, *_, length = symbols(mask_input.axes).values()
    output_symbols, mask = symbols(output.axes), inputs[mask_input.name].astype(bool)
    text, lengths = mask, {terms(length)[-1], NUM_LOGITS}
    if length == BUFFER:  # of a static cache; the text ends with the new tokens
        ((past, new),) = past_lengths(spec).items()
        sizes = symbol_sizes(spec, inputs)
        text, lengths = mask[:, : sizes[past] + sizes[new]], {new, *lengths}
    masks = {axis: mask if of == BUFFER else text for axis, of in output_symbols.items() if terms(of)[-1] in lengths}
    if not masks or output_symbols.get(0) != batch:
        return all_elements
    return lambda array: array[_at_tokens(masks, array.shape)]


def token_features(spec: PlannedSpec, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> Select:
    """Selects the features of tokens in a tensor of this shape, by the padding mask among the inputs of a case."""
    mask = inputs.get(spec.check.mask_input or "")
    if mask is None or len(shape) != 3 or shape[0] != len(mask) or shape[1] > mask.shape[1]:  # noqa: PLR2004 - axes
        # The tensor has not the axes of features: batch, length, size.
        return all_elements
    tokens = mask[:, mask.shape[1] - shape[1] :].astype(bool)
    return lambda array: array[tokens]


def _at_tokens(masks: Mapping[int, Array], shape: tuple[int, ...]) -> Array:
    """True where an element of this shape is at a token along each axis, by the mask of the axis."""
    at_tokens = np.ones(shape, dtype=bool)
    for axis, mask in masks.items():
        past = max(0, shape[axis] - mask.shape[1])
        tokens = np.pad(mask, ((0, 0), (past, 0)), constant_values=True)[:, past + mask.shape[1] - shape[axis] :]
        at_tokens &= tokens.reshape([len(mask), *(shape[axis] if i == axis else 1 for i in range(1, len(shape)))])
    return at_tokens


def _no_exact() -> tuple[str, Array]:
    raise NoReference("there is no model in a wider dtype")


@frozen(eq=False)
class Exact:
    """PyTorch's array of an output in a wider dtype, those rounded otherwise, and its largest own norms before."""

    array: ExactArray = _no_exact
    roundings: Sequence[ExactArray] = ()
    known: Norms = NO_ERROR


def compare(
    spec: PlannedSpec,
    output: str,
    case: str,
    actual: Array,
    expected: Array,
    select: Select = all_elements,
    exact: Exact = Exact(),
    tick: Tick = no_tick,
) -> Comparison:
    """Compares ONNX Runtime's array of an output with PyTorch's.

    Infinities and NaN must be the same in both, and numbers that stand for infinity nearly so. Integers must be equal.
    Arrays that differ in shape or kind of number never agree. Other elements agree by the rule of `verdict.py`, or,
    if the spec has a tolerance, if `|actual - expected| <= atol * max(1, scale) + rtol * |expected|`.
    `case`: its name, with its sizes. `expected`: PyTorch's array, as float32 if it holds real numbers.
    """
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        types = f"{actual.dtype}{list(actual.shape)} where PyTorch gives {expected.dtype}{list(expected.shape)}"
        return Comparison(output, f"{case}: {types}", actual.shape, np.inf, np.inf, 0.0, passed=False)
    pair = Pair.of(spec, actual, expected, select)
    if expected.dtype.kind != "f":
        largest = float(_distances(pair.actual, pair.expected).max(initial=0.0))
        max_rel = largest / max(scale_of(pair.expected), 1.0)
        result = Comparison("", "", (), largest, max_rel, 0.0, passed=largest == 0)
    elif has_tolerance(spec):
        result = _within_tolerance(spec, pair)
    else:
        result = verdict(evidence_of(pair, select, exact, tick))
        if not _special_agree(pair):
            result = evolve(result, max_abs=np.inf, passed=False, norms=None, own_norms=None, within_own_error=False)
    return evolve(result, output=output, case=case, shape=actual.shape)


def has_tolerance(spec: PlannedSpec) -> bool:
    """Whether a spec has a tolerance of its own, which replaces the rule of `verdict.py`."""
    return spec.check.atol is not None or spec.check.rtol is not None


@frozen(eq=False)
class Pair:
    """The compared elements of an output; `ordinary` where PyTorch's are finite, and stand for no infinity."""

    actual: Array
    expected: Array
    ordinary: Array
    dtype: str

    @staticmethod
    def of(spec: PlannedSpec, actual: Array, expected: Array, select: Select) -> Pair:
        """The elements of two arrays; a model in another dtype may have an output in float16."""
        dtype = "float16" if expected.dtype == np.float16 else spec.target.float_dtype or "float32"
        first, second = select(actual).astype(np.float64), select(expected).astype(np.float64)
        return Pair(first, second, np.abs(second) < precision_of(dtype).largest_ordinary, dtype)

    def elements(self, array: Array) -> Array:
        """The ordinary elements of an array; they are copied only if some are not ordinary."""
        return array.reshape(-1) if self.ordinary.all() else array[self.ordinary]


def _within_tolerance(spec: PlannedSpec, pair: Pair) -> Comparison:
    """The comparison by the tolerance of the spec; a part of it that is None is 0."""
    scale = max(scale_of(pair.expected[pair.ordinary]), 1.0)
    atol, rtol = (spec.check.atol or 0.0) * scale, spec.check.rtol or 0.0
    distances = _distances(pair.actual, pair.expected)
    bounds = np.where(np.isfinite(pair.expected), atol + rtol * np.abs(pair.expected), 0.0)
    agree = distances <= bounds
    largest = float(distances[pair.ordinary].max(initial=0.0))
    used = float((distances[bounds > 0] / bounds[bounds > 0]).max(initial=0.0))
    reference = f"PyTorch in {pair.dtype}, by the tolerance of the spec"
    tolerance = tolerated(largest, used, atol)
    return Comparison("", "", (), largest, largest / scale, tolerance, bool(agree.all()), reference=reference)


def evidence_of(pair: Pair, select: Select, exact: Exact, tick: Tick = no_tick) -> Evidence:
    """The evidence on the ordinary elements of an output."""
    actual, expected = pair.elements(pair.actual), pair.elements(pair.expected)
    scale = Scale.of(expected, precision_of(pair.dtype))

    def error(computed: Array, reference: Array) -> Error:
        return scale.error(computed - reference, tick)

    elements, *roundings = (partial(_elements, pair, select, each) for each in (exact.array, *exact.roundings))
    return Evidence(pair.dtype, scale.rms, expected, partial(error, actual), error, elements, roundings, exact.known)


def _elements(pair: Pair, select: Select, computed: ExactArray) -> tuple[str, Array]:
    """The name of the wider dtype, and the computed values of the ordinary elements. Raises NoReference."""
    wider, array = computed()
    values = select(array).astype(np.float64)
    if values.shape != pair.expected.shape:  # rounding decides how much the model returns
        shapes = f"{list(values.shape)} where the dtype of the export gives {list(pair.expected.shape)}"
        raise NoReference(f"{wider} gives {shapes}", Norms(np.inf, np.inf))
    values = pair.elements(values)
    if not np.isfinite(values).all():
        raise NoReference(f"{wider} has infinities or NaN where {pair.dtype} has numbers")
    return wider, values


def _special_agree(pair: Pair) -> bool:
    """Whether infinities and NaN are the same, and numbers that stand for infinity differ by rounding alone."""
    actual, expected = pair.actual[~pair.ordinary], pair.expected[~pair.ordinary]
    distances, bound = _distances(actual, expected), always_allowed(precision_of(pair.dtype)).peak
    return bool(np.where(np.isfinite(expected), distances <= bound * np.abs(expected), distances == 0).all())


def _distances(actual: Array, expected: Array) -> Array:
    """The distance of each element: 0 if both are the same infinity or both NaN, infinite if only one is."""
    with np.errstate(invalid="ignore"):
        distances: Array = np.abs(actual - expected)
    undefined = np.isnan(distances)
    if undefined.any():
        left, right = actual[undefined], expected[undefined]
        distances[undefined] = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.inf)
    return distances
