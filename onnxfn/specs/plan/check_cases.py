"""The cases of a check, and the ranges of their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import prod

from attrs import evolve

from onnxfn.specs.algebra.compose import compose, group, named
from onnxfn.specs.algebra.dummies import known_sizes, planned_sizes
from onnxfn.specs.algebra.planned import Case, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies, ExportSpec
from onnxfn.specs.axes import names, shape, symbols, terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import AxisRange, DummySize

Ranges = Mapping[str, AxisRange]


def within_ranges(spec: PlannedSpec) -> PlannedSpec:
    """The planned spec with the sizes of its trace and of its cases moved into the ranges of their axes."""
    ranges = {axis.name: axis for axis in spec.axis_ranges}
    if not ranges:
        return spec
    cases = tuple(case_within(case, spec) for case in spec.cases)
    return evolve(spec, dummies=_dummies_within(spec.dummies, ranges), cases=cases)


def case_within(case: Case, spec: PlannedSpec) -> Case:
    """A case with its sizes moved into the ranges of a planned spec."""
    ranges = {axis.name: axis for axis in spec.axis_ranges}
    return evolve(case, dummies=_dummies_within(case.dummies, ranges)) if ranges else case


def check_sizes(spec: PlannedSpec, sizes: Mapping[str, int]) -> None:
    """Raises InvalidSpec if a size is not in the range of its axis."""
    for axis in spec.axis_ranges:
        if not axis.low <= sizes.get(axis.name, axis.low) <= axis.high:
            raise InvalidSpec(f"{axis.name!r} is {axis.low} to {axis.high} by with_shapes, not {sizes[axis.name]}")


def _dummies_within(dummies: Dummies, ranges: Ranges) -> Dummies:
    return evolve(dummies, sizes=tuple(_within(size, ranges) for size in dummies.sizes))


def _within(size: DummySize, ranges: Ranges) -> DummySize:
    axis = ranges.get(size.name)
    if axis is None or not isinstance(size.value, int):
        return size
    return evolve(size, value=min(max(size.value, axis.low), axis.high))


AFFORDABLE_BATCH, LARGE_INPUTS = 2, 600_000
"""The largest batch for large inputs, and how many real numbers such inputs have together: 3 images of 224 x 224 have
fewer, 3 spectrograms of 30 seconds more."""


CASE_STEPS = (3, 5)
"""By how much sizes are larger than in the trace, in the first case and in the second."""


def cases(spec: PlannedSpec) -> tuple[Case, ...]:
    """The cases of a planned spec: its own, else a case `one` with batch 1 and `several` with batch 3.

    In these two, all other sizes are larger than in the trace, by 3 and by 5. So are, in cases of its own, the sizes
    of an axis that no case has, such as an axis that was renamed: else it would be checked at the traced size alone.
    """
    used = dict.fromkeys(name for input_ in spec.inputs for name in names(input_.axes))
    traced = planned_sizes(spec, used)
    own = {size.name for case in spec.cases for size in case.dummies.sizes}
    missing = {name: size for name, size in traced.items() if name not in {*own, *fixed_sizes(spec)}}
    batch = batch_symbol(spec)
    single = {name: 1 if name == batch else size + CASE_STEPS[0] for name, size in missing.items()}
    several = {name: 3 if name == batch else size + CASE_STEPS[1] for name, size in missing.items()}
    default = spec.cases or (Case("one"), Case("several"))
    return tuple(
        case_within(_with_sizes(case, sizes), spec)
        for case, sizes in zip(default, cycle((single, several)), strict=False)
    )


def batch_symbol(spec: PlannedSpec) -> str | None:
    """The symbol of the batch: that of the spec, else the dynamic first axis that all inputs share; None for none."""
    if any(spec.batch in names(input_.axes) for input_ in spec.inputs):
        return spec.batch
    first = {symbols(input_.axes).get(0) for input_ in spec.inputs}
    symbol = first.pop() if len(first) == 1 else None
    return symbol if symbol is not None and terms(symbol) == (symbol,) else None


def _with_sizes(case: Case, sizes: Mapping[str, int]) -> Case:
    """A case with more sizes."""
    if not sizes:
        return case
    more = Dummies(sizes=tuple(DummySize(symbol, size) for symbol, size in sizes.items()))
    return evolve(case, dummies=group(case.dummies, more))


def in_affordable_batches(spec: PlannedSpec, every_case: Sequence[Case]) -> tuple[Case, ...]:
    """The cases, each `with_affordable_batch`. Of those with several large images, one has several if texts are alone.

    That is the case with the most texts: several images with several texts show more than several with one.
    """
    affordable = [with_affordable_batch(spec, case) for case in every_case]
    texts = [_texts_of_large_batch(in_case(spec, case)) for case in affordable]
    single = Dummies(sizes=(DummySize(spec.batch, 1),))
    return tuple(
        case if number in (0, max(texts)) else evolve(case, dummies=group(case.dummies, single))
        for case, number in zip(affordable, texts, strict=True)
    )


def _texts_of_large_batch(planned: PlannedSpec) -> int:
    """The rows of the texts beside several large images; 0 if there are no such texts or images."""
    sizes = known_sizes(planned, {})
    if sizes.get(planned.batch, 1) == 1 or not _has_large_inputs(planned):
        return 0
    return max(_rows_alone(planned, sizes), default=0)


def _rows_alone(planned: PlannedSpec, sizes: Mapping[str, int]) -> list[int]:
    """The rows of each input that has no axis of the batch."""
    alone = [input_ for input_ in planned.inputs if planned.batch not in names(input_.axes)]
    return [size for input_ in alone for size in shape(input_.axes, sizes)[:1]]


def with_affordable_batch(spec: PlannedSpec, case: Case) -> Case:
    """The case, with a batch of at most 2 if its images or sounds are large: a third one costs more than it shows.

    Texts with rows of their own, so many for each image of the batch, are so many or more for each of the smaller one.
    A case stays as it is if an image or sound has no axis of the batch: their number may have to fit the batch.
    """
    planned = in_case(spec, case)
    if not _has_large_inputs(planned):
        return case
    sizes = known_sizes(planned, {})
    rows = _rows_alone(planned, sizes)
    smaller = Dummies(sizes=(DummySize(spec.batch, _smaller_batch(sizes[spec.batch], rows)),))
    return evolve(case, dummies=group(case.dummies, smaller))


def _has_large_inputs(planned: PlannedSpec) -> bool:
    """Whether the images or sounds of a case have more than `LARGE_INPUTS` numbers, each with the axis of the batch."""
    sizes, fed = known_sizes(planned, {}), {feedback.input for feedback in planned.feedback}
    real = [input_ for input_ in planned.inputs if "float" in input_.kind and input_.name not in fed]
    has_batch = all(planned.batch in names(input_.axes) for input_ in real)
    return has_batch and sum(prod(shape(input_.axes, sizes)) for input_ in real) > LARGE_INPUTS


def _smaller_batch(batch: int, rows: Sequence[int]) -> int:
    """The largest affordable batch of which these numbers of rows are multiples; the batch if they are none of it.

    Fewer rows than the batch has are for no element of it, such as one text for all videos: any batch fits them.

    >>> _smaller_batch(3, []), _smaller_batch(3, [6]), _smaller_batch(3, [3]), _smaller_batch(3, [4])
    (2, 2, 1, 3)
    >>> _smaller_batch(3, [1])
    2
    """
    rows = [number for number in rows if number >= batch]
    if any(number % batch for number in rows):
        return batch
    return next(size for size in range(min(batch, AFFORDABLE_BATCH), 0, -1) if not any(each % size for each in rows))


def past_lengths(spec: PlannedSpec) -> dict[str, str]:
    """From the symbol of each length of the past to the symbol that it grows by in one call.

    For a decoder: `{"past_sequence_length": "sequence_length"}`. The output of a cache row has the axis
    `past_sequence_length + sequence_length` where its input has `past_sequence_length`.
    """
    outputs = {output.name: output for output in spec.outputs}
    inputs = {input_.name: input_ for input_ in spec.inputs}
    return {
        symbol: added[0]
        for feedback in spec.feedback
        for axis, symbol in symbols(inputs[feedback.input].axes).items()
        if (
            added := [
                name for name in terms(symbols(outputs[feedback.output].axes).get(axis, symbol)) if name != symbol
            ]
        )
    }


def in_case(spec: PlannedSpec, case: Case) -> PlannedSpec:
    """The planned spec with the dummies and inputs of a case."""
    return evolve(spec, dummies=group(spec.dummies, case.dummies), inputs=named(spec.inputs, case.inputs))


def with_dummies(spec: PlannedSpec, *specs: ExportSpec) -> PlannedSpec:
    """The planned spec with other dummies: `with_dummies(spec, padded("none"))`."""
    return evolve(spec, dummies=group(spec.dummies, compose(*specs).dummies))
