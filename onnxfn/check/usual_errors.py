"""PyTorch's own error in an output, over several inputs.

An output of few elements, such as the similarity of an image and a text, may have hardly an error by luck. Then its
error is no measure for a graph. So PyTorch answers other inputs of the same sizes, in the dtype of the export and in
float64, and the largest of these errors counts.

The inputs are computed one by one, until the output agrees: in a model of texts and videos each costs a minute.

In an output of many elements the error depends on the kernels that PyTorch chooses for the sizes and masks of a case.
So an error that is too large in one case agrees if PyTorch's own error in another case allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial

from attrs import evolve

from onnxfn.check.compare import Comparison, UsualError, allowed, own_norms
from onnxfn.check.exact_outputs import ExactOutputs
from onnxfn.check.norms import NO_ERROR, Norms, larger
from onnxfn.check.precision import precision_of
from onnxfn.check.references import Reference
from onnxfn.check.valid_elements import valid_elements
from onnxfn.specs.planned import Part

OTHER_INPUTS = 4
"""How many other inputs PyTorch answers."""


def usual_errors(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> tuple[UsualError, ...]:
    """Functions that compute the largest norms of PyTorch's own error in an output, for inputs like a reference's.

    The first computes those of one input, the second those of this one and another, and so on. There are none if the
    inputs are real: no others are like them.
    """
    other = reference.other
    if other is None:
        return ()
    own_error = cache(lambda number: _own_error(part, index, other(number), exact))

    def largest(count: int) -> Norms:
        return larger(*map(own_error, range(1, count + 1)))

    return tuple(partial(largest, count) for count in range(1, OTHER_INPUTS + 1))


def agreeing_with_any_case(part: Part, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of an output in its cases; those pass, too, whose error PyTorch's largest own error allows."""
    own = largest_own_norms(comparisons)
    if own == NO_ERROR or all(comparison.passed for comparison in comparisons):
        return list(comparisons)
    bound = allowed(precision_of(part.spec.target.float_dtype), own)
    return [
        evolve(comparison, passed=comparison.passed or (comparison.norms is not None and comparison.norms <= bound))
        for comparison in comparisons
    ]


def largest_own_norms(comparisons: Iterable[Comparison], output: str | None = None) -> Norms:
    """The largest norms of PyTorch's own error in comparisons, of one output or of all; zero if none is known."""
    known = [each.own_norms for each in comparisons if each.own_norms and output in (None, each.output)]
    return larger(NO_ERROR, *known)


def _own_error(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> Norms:
    """The norms of PyTorch's own error in the output with this index, for the inputs of a reference."""
    _, wider = exact(part, reference.inputs)
    select = valid_elements(part.spec, part.spec.outputs[index], reference.inputs)
    return own_norms(part.spec, select(reference.outputs[index]), select(wider[index]))
