"""PyTorch's own error in an output, over several inputs.

An output of few elements, such as the similarity of an image and a text, may have hardly an error by luck. Then its
error is no measure for a graph. So PyTorch answers other inputs of the same sizes, in the dtype of the export and in
float64, and the largest of these errors counts.
"""

from __future__ import annotations

from onnxfn.check.compare import Norms, UsualError, larger, own_norms
from onnxfn.check.exact_outputs import ExactOutputs
from onnxfn.check.references import Reference
from onnxfn.check.valid_elements import valid_elements
from onnxfn.specs.planned import Part

OTHER_INPUTS = 4
"""How many other inputs PyTorch answers."""


def usual_error(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> UsualError | None:
    """A function that computes the largest norms of PyTorch's own error in an output, for inputs like a reference's.

    None if the inputs are real: there are no others like them.
    """
    other = reference.other
    if other is None:
        return None
    return lambda: larger(*(_own_error(part, index, other(number), exact) for number in range(1, OTHER_INPUTS + 1)))


def _own_error(part: Part, index: int, reference: Reference, exact: ExactOutputs) -> Norms:
    """The norms of PyTorch's own error in the output with this index, for the inputs of a reference."""
    _, wider = exact(part, reference.inputs)
    select = valid_elements(part.spec, part.spec.outputs[index], reference.inputs)
    return own_norms(part.spec, select(reference.outputs[index]), select(wider[index]))
