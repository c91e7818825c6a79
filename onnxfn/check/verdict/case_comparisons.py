"""The comparisons of the outputs of a case: PyTorch's own error in another case counts, too."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.check.cases.references import OutputArrays, Reference, case_reference
from onnxfn.check.cuts.graph_values import computed_values
from onnxfn.check.cuts.runs import written_graph
from onnxfn.check.verdict import verdict
from onnxfn.check.verdict.compare import Exact, compare, valid_elements
from onnxfn.check.verdict.roundings import ROUNDINGS, error_of_sums, rounded_otherwise
from onnxfn.models.dtypes import torch_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.stored.reports import Tick, no_tick


def agreeing_with_any_case(part: Part, comparisons: Sequence[verdict.Comparison]) -> list[verdict.Comparison]:
    """The comparisons of an output in its cases; those pass, too, whose error PyTorch's largest own error allows."""
    bound = verdict.allowed(verdict.precision_of(part.spec.target.float_dtype), _largest_own(comparisons))
    return [_within(bound, each) for each in comparisons]


def _within(bound: verdict.Norms, comparison: verdict.Comparison) -> verdict.Comparison:
    """The comparison by a larger bound if it does not pass by its own."""
    if comparison.passed or comparison.norms is None or not comparison.norms <= bound:
        return comparison
    of_bound = comparison.norms.of_bound(bound)
    return evolve(comparison, passed=True, tolerance=verdict.tolerated(comparison.max_abs, of_bound, 0.0))


def _largest_own(comparisons: Sequence[verdict.Comparison]) -> verdict.Norms:
    """The largest norms of PyTorch's own error among comparisons."""
    return verdict.larger(verdict.NO_ERROR, *(each.own_norms for each in comparisons if each.own_norms is not None))


@frozen(eq=False)
class CheckedFile:
    """A file that is compared with PyTorch: a model in the float dtype of the part.

    `exact` computes PyTorch's outputs in a wider dtype. `content`: the graph that is compared in place of the file's;
    its weights are external data. `findings`: faults of the file that are known before it runs. `in_memory`: from the
    codes of weights to their elements, which a session of the graph may have in place of them. `dtype`: the float dtype
    that PyTorch computes in; None: that of the part. `least`: the norms that PyTorch's own error has at least: those of
    constants that the file rounds. `choosing`: a context in which PyTorch computes its outputs again.
    """

    model: Any
    part: Part
    file: Path
    exact: verdict.ExactOutputs
    tick: Tick = field(default=no_tick)
    content: bytes | None = field(default=None, repr=False)
    findings: tuple[str, ...] = ()
    in_memory: Mapping[str, Array] = field(factory=dict, repr=False)
    dtype: str | None = None
    least: verdict.Norms = verdict.NO_ERROR
    choosing: Callable[[], AbstractContextManager[None]] = nullcontext


def case_comparisons(
    checked: CheckedFile, reference: Reference, outputs: OutputArrays, earlier: Sequence[verdict.Comparison] = ()
) -> tuple[verdict.Comparison, ...]:
    """The comparison of each output in a case; `earlier` are those in the cases before.

    If one differs, PyTorch computes its outputs again with the choices of the file, which count if they are as good as
    its own: see `choices.py`. If one still differs, the rounding of long sums counts: see `roundings.py`. If PyTorch in
    float64 is then as far away from PyTorch as the file is, values decide that rounding does not decide.
    """
    comparisons = _of_same_values(checked, reference, outputs, earlier)
    undecided = {each.output: each.own_error or 0.0 for each in comparisons if each.within_own_error}
    if undecided:
        return _for_other_values(checked, reference, undecided) or comparisons
    return comparisons


def _of_same_values(
    checked: CheckedFile, reference: Reference, outputs: OutputArrays, earlier: Sequence[verdict.Comparison] = ()
) -> tuple[verdict.Comparison, ...]:
    """The comparison of each output for the values of a case."""
    comparisons = output_comparisons(checked, reference, outputs, earlier)
    if all(each.passed for each in comparisons):
        return comparisons
    as_file = _for_choices_of_file(checked, reference)
    if as_file and all(each.passed for each in as_file):
        return as_file
    sums = error_of_sums(checked.model, checked.part, reference.inputs)
    if sums != verdict.NO_ERROR:
        with_sums = evolve(checked, least=verdict.larger(checked.least, sums))
        comparisons = output_comparisons(with_sums, reference, outputs, earlier)
    return comparisons if all(each.passed for each in comparisons) else as_file or comparisons


def _for_choices_of_file(checked: CheckedFile, reference: Reference) -> tuple[verdict.Comparison, ...]:
    """The comparisons where PyTorch picks and answers as the file does; none if it does not, or not by rounding."""
    from onnxfn.check.verdict import choices

    part, written = checked.part, written_graph(checked.file, checked.content)
    picked, compared = choices.picked_positions(written), choices.compared_values(written)
    if not picked and not compared:
        return ()
    try:
        values = computed_values(written, [*picked, *compared], reference.inputs)
        picks, answers = ([values[name] for name in names] for names in (picked, compared))
        with choices.choosing_as_file(picks, answers, verdict.precision_of(part.spec.target.float_dtype)) as chosen:
            expected = torch_outputs(checked.model, part, reference.inputs, torch_dtype(checked.dtype))
    except (OnnxfnError, choices.WorseChoice):
        return ()
    if not chosen:
        return ()
    label = ", ".join(text for text in (choices.PICKED, choices.ANSWERED) if text in dict(chosen.values()))
    actual = tuple(values[name] for name in part.outputs)
    as_file = evolve(checked, choosing=partial(choices.choosing_again, chosen))
    comparisons = output_comparisons(as_file, evolve(reference, outputs=expected), actual)
    return tuple(evolve(each, reference=f"{each.reference}, {label}") for each in comparisons)


OTHER_VALUES, SEEDS = "for other values than at first, as rounding decides about those", range(2, 6)
"""The end of the text about what outputs were compared with, and the seeds of the values that are tried."""


def _for_other_values(
    checked: CheckedFile, reference: Reference, undecided: Mapping[str, float]
) -> tuple[verdict.Comparison, ...]:
    """The comparisons for the first other values of a case that rounding does not decide about; none for no such."""
    # A detector picks boxes by overlaps: for some values rounding changes what is picked, for others it does not.
    part, case = checked.part, reference.drawn
    if case is None:
        return ()
    for seed in SEEDS:
        try:
            other = case_reference(checked.model, part, evolve(case, seed=case.seed + seed), checked.dtype)
            values = computed_values(written_graph(checked.file, checked.content), (), other.inputs)
            _, exact = checked.exact(part, other.inputs)
        except (OnnxfnError, verdict.NoReference):
            return ()
        arrays = dict(zip(part.outputs, zip(other.outputs, exact, strict=True), strict=True))
        # Where rounding changes a choice of the model, PyTorch's own error is 100 times as large, at least.
        if not any(_own_error(*arrays[name]) * 100 <= error for name, error in undecided.items()):
            continue
        comparisons = _of_same_values(checked, other, tuple(values[name] for name in part.outputs))
        if not any(each.within_own_error for each in comparisons):
            return tuple(evolve(each, reference=f"{each.reference}, {OTHER_VALUES}") for each in comparisons)
    return ()


def _own_error(expected: Array, exact: Array) -> float:
    """The largest error of PyTorch's array; NaN, which is no number's equal, if it has no element or another shape."""
    with np.errstate(invalid="ignore"):
        return float(np.abs(expected - exact).max()) if expected.size and expected.shape == exact.shape else np.nan


def output_comparisons(
    checked: CheckedFile, reference: Reference, outputs: OutputArrays, earlier: Sequence[verdict.Comparison] = ()
) -> tuple[verdict.Comparison, ...]:
    """The comparison of each output of a case; exact outputs are computed once, other roundings for the first alone."""
    part, inputs, comparisons = checked.part, reference.inputs, list[verdict.Comparison]()

    @cache
    def computed(number: int) -> tuple[str, OutputArrays]:
        with checked.choosing():
            if number == 0:
                return checked.exact(part, inputs)
            return rounded_otherwise(checked.model, part, inputs, checked.dtype, seed=number)

    def of_output(index: int, number: int) -> tuple[str, Array]:
        how, arrays = computed(number)
        return how, arrays[index]

    for index, (output, actual, expected) in enumerate(zip(part.spec.outputs, outputs, reference.outputs, strict=True)):
        known = verdict.larger(checked.least, _largest_own([each for each in earlier if each.output == output.name]))
        roundings = ROUNDINGS if all(each.passed for each in (*earlier, *comparisons)) else 0
        exact, *others = (partial(of_output, index, number) for number in range(1 + roundings))
        case, select = reference.case, valid_elements(part.spec, output, inputs)
        by = Exact(exact, others, known)
        comparisons += [compare(part.spec, output.name, case, actual, expected, select, by, checked.tick)]
    return tuple(comparisons)
