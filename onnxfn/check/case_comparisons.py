"""Compares the outputs of one case with PyTorch's: at once, for what the file chooses, or with exact outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.choices import ANSWERED, with_choices
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
    if reference.shorter is not None:
        return shorter_comparisons(part, reference, outputs, tick)
    agreeing = _agreeing_without_exact(part, reference, outputs, before, tick)
    if agreeing is not None:
        return agreeing
    if reference.alone is not None:
        reference = evolve(reference.alone(), case=reference.case, chosen=reference.chosen)
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


def _agreeing_without_exact(
    part: Part, reference: Reference, outputs: OutputArrays, before: Sequence[Comparison], tick: Tick
) -> tuple[Comparison, ...] | None:
    """The comparisons if all outputs agree with PyTorch's for each row, or for ONNX Runtime's answers, else None.

    Exact outputs take longer than PyTorch's in one batch, or for these answers, and then say less: all outputs differ.
    """
    if reference.alone is None and reference.answered is None:
        return None
    agreeing = _agreeing_at_once(part, reference, outputs, before, tick)
    if agreeing is not None or reference.answered is None:
        return agreeing
    answered = reference.answered(reference.chosen)
    if answered is None:
        return None
    agreeing = _agreeing_at_once(part, evolve(reference, outputs=answered), outputs, before, tick)
    return None if agreeing is None else _described(agreeing, ANSWERED)


def _described(comparisons: Iterable[Comparison], text: str) -> tuple[Comparison, ...]:
    """The comparisons, with a text after what each output was compared with."""
    return tuple(evolve(comparison, reference=f"{comparison.reference}, {text}") for comparison in comparisons)


def shorter_comparisons(part: Part, reference: Reference, outputs: OutputArrays, tick: Tick) -> tuple[Comparison, ...]:
    """The comparison of each output without equal layers. PyTorch's own error there allows none in other cases.

    There are none if outputs differ, and no exact reference can say whether that is a fault.
    """
    assert reference.shorter is not None
    exact = reference.shorter.exact
    if exact is None:
        comparisons = _agreeing_at_once(part, reference, outputs, (), tick) or ()
    else:
        comparisons = tuple(output_comparisons(part, reference, outputs, exact, tick=tick))
    return tuple(evolve(comparison, own_norms=None) for comparison in comparisons)


class _ExactNeeded(Exception):
    """An output differs by more than is allowed without an exact reference."""


def _agreeing_at_once(
    part: Part, reference: Reference, outputs: OutputArrays, before: Sequence[Comparison], tick: Tick
) -> tuple[Comparison, ...] | None:
    """The comparisons if all outputs agree without an exact reference, else None.

    Where the outputs for each row differ, PyTorch answers the rows in one batch first, which costs half as much, and is
    right for a model whose rows depend on one another.
    """

    def no_exact(_: Part, __: Mapping[str, Array]) -> tuple[str, OutputArrays]:
        raise _ExactNeeded

    try:
        comparisons = tuple(output_comparisons(part, reference, outputs, no_exact, before, tick))
    except _ExactNeeded:
        return None
    return comparisons if all(comparison.passed for comparison in comparisons) else None


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
