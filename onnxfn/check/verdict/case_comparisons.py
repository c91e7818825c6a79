"""The comparisons of a case, and PyTorch's usual error.

PyTorch's error in an output of few elements, such as the similarity of an image and a text, may be tiny by luck. Then
it is not a measure for a graph. So PyTorch runs on other inputs of the same sizes, in the dtype of the export and in
float64, and the largest of these errors counts.

The inputs are computed one by one, until the output agrees: in a model of texts and videos each costs a minute.

In an output of many elements the error depends on the kernels that PyTorch chooses for the sizes and masks of a case.
So a large error in one case is allowed if PyTorch's own error in another case is as large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cases.references import OutputArrays, Reference
from onnxfn.check.cuts.graph_values import computed_values
from onnxfn.check.cuts.runs import written_graph
from onnxfn.check.verdict.choices import (
    ANSWERED,
    PICKED,
    WorseChoice,
    choosing_again,
    choosing_as_file,
    compared_values,
    picked_positions,
)
from onnxfn.check.verdict.compare import FEW_ELEMENTS, Exact, Pair, compare, evidence_of, valid_elements
from onnxfn.check.verdict.long_sums import error_of_sums
from onnxfn.check.verdict.verdict import (
    NO_ERROR,
    Comparison,
    ExactOutputs,
    Norms,
    OwnError,
    allowed,
    larger,
    precision_of,
)
from onnxfn.models.dtypes import torch_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.stored.reports import Tick, no_tick

MOST_INPUTS = 16
"""The largest number of other inputs that PyTorch runs on."""


def usual_errors(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> tuple[OwnError, ...]:
    """Functions that compute the norms of PyTorch's own error in an output, for an input like a reference's each.

    Their outputs have `FEW_ELEMENTS` elements together. Empty if the inputs are real: there are no others like them.
    """
    other = reference.other
    if other is None:
        return ()
    count = min(MOST_INPUTS, -(-FEW_ELEMENTS // max(1, reference.outputs[index].size)))
    return tuple(partial(_own_error, part, index, partial(other, 1 + number), exact) for number in range(count))


def agreeing_with_any_case(part: Part, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of an output in its cases; those pass, too, whose error PyTorch's largest own error allows."""
    bound = allowed(precision_of(part.spec.target.float_dtype), _largest_own(comparisons))
    return [
        evolve(each, passed=each.passed or (each.norms is not None and each.norms <= bound)) for each in comparisons
    ]


def _largest_own(comparisons: Sequence[Comparison]) -> Norms:
    """The largest norms of PyTorch's own error among comparisons."""
    return larger(NO_ERROR, *(each.own_norms for each in comparisons if each.own_norms is not None))


def _own_error(part: Part, index: int, other: Callable[[], Reference], exact: ExactOutputs) -> Norms:
    """The norms of PyTorch's own error in the output with this index, for the inputs of another reference."""
    reference = other()
    wider, arrays = exact(part, reference.inputs)
    select, expected = valid_elements(part.spec, part.spec.outputs[index], reference.inputs), reference.outputs[index]
    pair = Pair.of(part.spec, expected, expected, select)
    evidence = evidence_of(pair, select, Exact(lambda: (wider, arrays[index])))
    return evidence.own(evidence.exact()[1]).norms


@frozen(eq=False)
class CheckedFile:
    """A file that is compared with PyTorch: a model in the float dtype of the part.

    `exact` computes PyTorch's outputs in a wider dtype. `content`: the graph that is compared in place of the file's;
    its weights are external data. `findings`: faults of the file that are known before it runs. `in_memory`: from the
    codes of weights to their elements, which a session of the graph may have in place of them. `dtype`: the float dtype
    that PyTorch computes in; None: that of the part. `least`: the norms that PyTorch's own error has at least: those of
    constants that the file rounds.
    """

    model: Any
    part: Part
    file: Path
    exact: ExactOutputs
    tick: Tick = field(default=no_tick)
    content: bytes | None = field(default=None, repr=False)
    findings: tuple[str, ...] = ()
    in_memory: Mapping[str, Array] = field(factory=dict, repr=False)
    dtype: str | None = None
    least: Norms = NO_ERROR


def case_comparisons(
    checked: CheckedFile, reference: Reference, outputs: OutputArrays, earlier: Sequence[Comparison] = ()
) -> tuple[Comparison, ...]:
    """The comparison of each output in a case; `earlier` are those in the cases before.

    If one differs, the rounding of long sums counts: see `long_sums.py`. If it still differs, PyTorch computes its
    outputs again with the choices of the file. If these choices are as good as its own, the new outputs are compared,
    and the text of the reference says so: see `choices.py`.
    """
    comparisons = output_comparisons(checked, reference, outputs, earlier)
    if not all(comparison.passed for comparison in comparisons):
        least = larger(checked.least, error_of_sums(checked.model, checked.part, reference.inputs))
        comparisons = output_comparisons(evolve(checked, least=least), reference, outputs, earlier)
    if all(comparison.passed for comparison in comparisons):
        return comparisons
    return _for_choices_of_file(checked, reference) or comparisons


def _for_choices_of_file(checked: CheckedFile, reference: Reference) -> tuple[Comparison, ...]:
    """The comparisons where PyTorch picks and answers as the file does; none if it does not, or not by rounding."""
    part, written = checked.part, written_graph(checked.file, checked.content)
    picked, compared = picked_positions(written), compared_values(written)
    if not picked and not compared:
        return ()
    try:
        values = computed_values(written, [*picked, *compared], reference.inputs)
        picks, answers = ([values[name] for name in names] for names in (picked, compared))
        with choosing_as_file(picks, answers, precision_of(part.spec.target.float_dtype)) as chosen:
            expected = torch_outputs(checked.model, part, reference.inputs, torch_dtype(checked.dtype))
    except (OnnxfnError, WorseChoice):
        return ()
    if not chosen:
        return ()

    def exact(part: Part, inputs: Mapping[str, Array]) -> tuple[str, OutputArrays]:
        with choosing_again(chosen):
            return checked.exact(part, inputs)

    texts = {text for text, _ in chosen.values()}
    label = ", ".join(text for text in (PICKED, ANSWERED) if text in texts)
    actual = tuple(values[output.name] for output in part.spec.outputs)
    as_file = evolve(checked, exact=exact)
    comparisons = output_comparisons(as_file, evolve(reference, outputs=expected), actual)
    return tuple(evolve(each, reference=f"{each.reference}, {label}") for each in comparisons)


def output_comparisons(
    checked: CheckedFile, reference: Reference, outputs: OutputArrays, earlier: Sequence[Comparison] = ()
) -> tuple[Comparison, ...]:
    """The comparison of each output in the case of a reference; the exact outputs are computed at most once."""
    part = checked.part
    exact_arrays = cache(partial(checked.exact, part, reference.inputs))

    def exact_output(index: int) -> tuple[str, Array]:
        wider, arrays = exact_arrays()
        return wider, arrays[index]

    def compared(index: int) -> Comparison:
        output, actual, expected = part.spec.outputs[index], outputs[index], reference.outputs[index]
        others = usual_errors(part, index, reference, checked.exact)
        known = larger(checked.least, _largest_own([each for each in earlier if each.output == output.name]))
        measures = Exact(partial(exact_output, index), others, known)
        select = valid_elements(part.spec, output, reference.inputs)
        return compare(part.spec, output.name, reference.case, actual, expected, select, measures, checked.tick)

    return tuple(map(compared, range(len(part.spec.outputs))))
