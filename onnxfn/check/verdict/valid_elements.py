"""Which elements of an output are compared: those of tokens, not those of padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axes import symbols, terms
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS
from onnxfn.specs.records import OutputSpec

FEATURE_RANK = 3
"""The number of axes of features of tokens: batch, length, size."""

Select = Callable[[Array], Array]
"""From an array to those of its elements that are compared."""


def all_elements(array: Array) -> Array:
    """The array itself."""
    return array


def valid_elements(spec: PlannedSpec, output: OutputSpec, inputs: Mapping[str, Array]) -> Select:
    """Selects the elements of an output at tokens, by the padding mask among the inputs of a case.

    The spec names the mask. Its last axis is a length, or a past plus a length, and so is the axis of an output, or the
    axis has the logits of the last tokens. An axis that is shorter than the mask has the last tokens of the mask. An
    axis that is longer begins with elements that are not padding. If there is no mask, or the output has no
    such axis, all are selected.
    """
    mask_input = next((input_ for input_ in spec.inputs if input_.name == spec.check.mask_input), None)
    if mask_input is None:
        return all_elements
    batch, *_, length = symbols(mask_input.axes).values()
    output_symbols = symbols(output.axes)
    lengths = (terms(length)[-1], NUM_LOGITS)
    token_axes = [axis for axis, symbol in output_symbols.items() if terms(symbol)[-1] in lengths]
    if not token_axes or output_symbols.get(0) != batch:
        return all_elements
    mask = inputs[mask_input.name].astype(bool)
    return lambda array: array[_at_tokens(mask, array.shape, token_axes)]


def token_features(spec: PlannedSpec, shape: tuple[int, ...], inputs: Mapping[str, Array]) -> Select:
    """Selects the features of tokens in a tensor of this shape, by the padding mask among the inputs of a case.

    All elements of a tensor that has not the axes of features: batch, length, size.
    """
    mask = inputs.get(spec.check.mask_input or "")
    if mask is None or len(shape) != FEATURE_RANK or shape[0] != len(mask) or shape[1] > mask.shape[1]:
        return all_elements
    tokens = mask[:, mask.shape[1] - shape[1] :].astype(bool)
    return lambda array: array[tokens]


def _at_tokens(mask: Array, shape: tuple[int, ...], token_axes: Iterable[int]) -> Array:
    """True where an element of this shape is at a token along each of these axes."""
    at_tokens = np.ones(shape, dtype=bool)
    for axis in token_axes:
        past = max(0, shape[axis] - mask.shape[1])
        tokens = np.pad(mask, ((0, 0), (past, 0)), constant_values=True)[:, past + mask.shape[1] - shape[axis] :]
        at_tokens &= tokens.reshape([len(mask), *(shape[axis] if i == axis else 1 for i in range(1, len(shape)))])
    return at_tokens
