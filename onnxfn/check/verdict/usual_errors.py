"""PyTorch's own error in an output, over several inputs.

An output of few elements, such as the similarity of an image and a text, may have hardly an error by luck. Then its
error is no measure for a graph. So PyTorch answers other inputs of the same sizes, in the dtype of the export and in
float64, and the largest of these errors counts.

The inputs are computed one by one, until the output agrees: in a model of texts and videos each costs a minute.

In an output of many elements the error depends on the kernels that PyTorch chooses for the sizes and masks of a case.
So an error that is too large in one case agrees if PyTorch's own error in another case allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import evolve

from onnxfn.check.cases.references import Reference
from onnxfn.check.verdict.compare import Exact, Pair, evidence_of
from onnxfn.check.verdict.exact_outputs import ExactOutputs
from onnxfn.check.verdict.norms import NO_ERROR, Norms, larger
from onnxfn.check.verdict.precision import precision_of
from onnxfn.check.verdict.valid_elements import valid_elements
from onnxfn.check.verdict.verdict import Comparison, OwnError, allowed
from onnxfn.specs.algebra.planned import Part

OTHER_INPUTS = 4
"""How many other inputs PyTorch answers."""


def usual_errors(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> tuple[OwnError, ...]:
    """Functions that compute the norms of PyTorch's own error in an output, for an input like a reference's each.

    There are none if the inputs are real: no others are like them.
    """
    other = reference.other
    if other is None:
        return ()
    return tuple(partial(_own_error, part, index, partial(other, 1 + number), exact) for number in range(OTHER_INPUTS))


def agreeing_with_any_case(part: Part, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of an output in its cases; those pass, too, whose error PyTorch's largest own error allows."""
    known = [each.own_norms for each in comparisons if each.own_norms is not None]
    bound = allowed(precision_of(part.spec.target.float_dtype), larger(NO_ERROR, *known))
    return [
        evolve(each, passed=each.passed or (each.norms is not None and each.norms <= bound)) for each in comparisons
    ]


def _own_error(part: Part, index: int, other: Callable[[], Reference], exact: ExactOutputs) -> Norms:
    """The norms of PyTorch's own error in the output with this index, for the inputs of another reference."""
    reference = other()
    wider, arrays = exact(part, reference.inputs)
    select, expected = valid_elements(part.spec, part.spec.outputs[index], reference.inputs), reference.outputs[index]
    pair = Pair.of(part.spec, expected, expected, select)
    evidence = evidence_of(pair, select, Exact(lambda: (wider, arrays[index])))
    return evidence.own(evidence.exact()[1]).norms
