"""Compares the outputs of one case with PyTorch's; where one differs, also with PyTorch's for what the file chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.choices import with_choices
from onnxfn.check.compare import Comparison, compare
from onnxfn.check.exact_outputs import ExactOutputs, rounded_inputs
from onnxfn.check.half_casts import compared_in_half, half_module
from onnxfn.check.references import OutputArrays, Reference
from onnxfn.check.usual_errors import largest_own_norms, usual_errors
from onnxfn.check.valid_elements import valid_elements
from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import Part
from onnxfn.specs.reports import Tick, no_tick


def case_comparisons(
    model: Any,
    part: Part,
    file: Path,
    reference: Reference,
    outputs: OutputArrays,
    exact: ExactOutputs,
    before: Sequence[Comparison] = (),
    tick: Tick = no_tick,
) -> tuple[Comparison, ...]:
    """The comparison of each output in a case; if one differs, with the positions that the file picks, see choices.

    `before` are the comparisons of the cases before: PyTorch's own error in them may make float64 needless.
    """
    comparisons = tuple(output_comparisons(part, reference, outputs, exact, before, tick))
    if all(comparison.passed for comparison in comparisons):
        return comparisons
    half = half_module(model, part, reference.inputs)
    if half is not None:
        return compared_in_half(model, part, reference, outputs, comparisons, half)
    choice = with_choices(model, part, file, reference, exact)
    if choice is None:
        return comparisons
    return _described(output_comparisons(part, choice.reference, choice.outputs, choice.exact, tick=tick), choice.text)


def _described(comparisons: Iterable[Comparison], text: str) -> tuple[Comparison, ...]:
    """The comparisons, with a text after what each output was compared with."""
    return tuple(evolve(comparison, reference=f"{comparison.reference}, {text}") for comparison in comparisons)


def output_comparisons(
    part: Part,
    reference: Reference,
    outputs: OutputArrays,
    exact: ExactOutputs,
    before: Sequence[Comparison] = (),
    tick: Tick = no_tick,
) -> Iterator[Comparison]:
    """The comparison of each output in the case of a reference; the exact outputs are computed at most once."""
    exact_output = _exact_output(part, reference.inputs, exact)
    rounded = rounded_inputs(reference.inputs, part.spec.target.float_dtype)
    functions = (exact_output, _exact_output(part, rounded, exact) if rounded else None)
    pairs = zip(part.spec.outputs, outputs, reference.outputs, strict=True)
    for index, (output, actual, expected) in enumerate(pairs):
        select = valid_elements(part.spec, output, reference.inputs)
        of_output, of_rounded = (partial(function, index) if function else None for function in functions)
        usual, elsewhere = usual_errors(part, index, reference, exact), largest_own_norms(before, output.name)
        measures = of_output, of_rounded, usual, elsewhere
        yield compare(part.spec, output.name, reference.case, actual, expected, select, *measures, tick)


def _exact_output(part: Part, inputs: Mapping[str, Array], exact: ExactOutputs) -> Callable[[int], tuple[str, Array]]:
    """A function from the number of an output to its exact array; all outputs are computed at the first call."""
    exact_arrays = cache(partial(exact, part, inputs))

    def exact_output(index: int) -> tuple[str, Array]:
        wider, arrays = exact_arrays()
        return wider, arrays[index]

    return exact_output
