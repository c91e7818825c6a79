"""The cases of a check, and the ranges of their axes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from math import prod
from typing import TypeVar

from attrs import evolve

from onnxfn.specs.algebra.compose import compose, group, named
from onnxfn.specs.algebra.dummies import axes_of_inputs, planned_sizes, size_inputs, sized
from onnxfn.specs.algebra.planned import Case, PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import names, symbols, terms
from onnxfn.specs.axis_symbols import UNBOUNDED, fixed_sizes, joined_axes, ranges, traced_sizes
from onnxfn.specs.conditions import symbols_of
from onnxfn.specs.plan.size_cases import FEW_ELEMENTS, MOST_GROWTH, within

Sized = TypeVar("Sized", Case, PlannedSpec)
"""What has sizes of dummies."""


def within_ranges(spec: PlannedSpec) -> PlannedSpec:
    """The planned spec with the sizes of its trace and of its cases moved into the ranges of their axes."""
    return evolve(case_within(spec, spec), cases=tuple(case_within(case, spec) for case in spec.cases))


def case_within(case: Sized, spec: PlannedSpec) -> Sized:
    """A case, or a planned spec, with its sizes moved into the ranges and limits of a planned spec."""
    sizes: dict[str, int] = traced_sizes(case)
    moved = {name: min(max(sizes[name], low), high) for name, (low, high) in ranges(spec).items() if name in sizes}
    if not spec.limits:
        return resized(case, moved)
    limited = {*sizes, *(name for limit in spec.limits for name in symbols_of(limit.text))}
    every = within({**traced_sizes(spec), **fixed_sizes(spec), **sizes, **moved}, spec.limits)
    return resized(case, {name: size for name, size in every.items() if name in limited})


CASE_STEPS = (3, 5)
"""By how much sizes are larger than in the trace, in the first case and in the second."""


def cases(spec: PlannedSpec) -> tuple[Case, ...]:
    """The cases of a planned spec: its own, else `one` with batch 1 and `several` with 3, at other sizes."""
    # An axis that no case sizes, such as a renamed axis, gets larger sizes too.
    traced = planned_sizes(spec, axes_of_inputs(spec))
    own = {name for case in spec.cases for name in traced_sizes(case)}
    missing = {name: size for name, size in traced.items() if name not in {*own, *fixed_sizes(spec)}}
    batch = batch_symbol(spec)
    single = {name: 1 if name == batch else size + CASE_STEPS[0] for name, size in missing.items()}
    several = {name: 3 if name == batch else size + CASE_STEPS[1] for name, size in missing.items()}
    pairs = zip(spec.cases or (Case("one"), Case("several")), cycle((single, several)), strict=False)
    every = tuple(case_within(resized(case, sizes), spec) for case, sizes in pairs)
    return (*every, *(end for end in range_ends(spec, every) if is_affordable(spec, end)))


def range_ends(spec: PlannedSpec, every: Sequence[Case]) -> Iterator[Case]:
    """The cases at the smallest and at the largest sizes of the ranges of a spec, where none of the others has them."""
    batch = batch_symbol(spec)
    single = {} if batch is None or batch in fixed_sizes(spec) else {batch: 1}
    for at, word in enumerate(("smallest", "largest")):
        stated = {axis.name for axis in spec.axes if (axis.low, axis.high)[at] is not None}
        sizes = {name: ends[at] for name, ends in ranges(spec).items() if name in stated and ends[at] < UNBOUNDED}
        if sizes and not any(sizes.items() <= traced_sizes(case).items() for case in every):
            yield case_within(resized(Case(f"{word} sizes"), single | sizes), spec)


def is_affordable(spec: PlannedSpec, case: Case) -> bool:
    """Whether a case at an end of a range has few elements enough to be tried."""
    elements, traced = (prod(size or 1 for size in traced_sizes(each).values()) for each in (in_case(spec, case), spec))
    return elements <= max(FEW_ELEMENTS, MOST_GROWTH * traced)


FAR_TEXT, FAR_PAST = "far text", "far past"
"""The names of the longest cases, see `text_cases.py`: not every whole model can read them. Others are numbered."""


def is_far(case: Case) -> bool:
    """Whether a case is one of these."""
    return case.name.startswith((FAR_TEXT, FAR_PAST))


def batch_symbol(spec: PlannedSpec) -> str | None:
    """The symbol of the batch: that of the spec, else the dynamic first axis that all inputs share; None for none."""
    if any(spec.batch in names(input_.axes) for input_ in spec.inputs):
        return spec.batch
    first = {symbols(input_.axes).get(0) for input_ in spec.inputs}
    symbol = first.pop() if len(first) == 1 else None
    return symbol if symbol is not None and terms(symbol) == (symbol,) else None


def resized(case: Sized, sizes: Mapping[str, int]) -> Sized:
    """A case, or a planned spec, with other sizes of some axes."""
    return evolve(case, axes=joined_axes(case.axes, sized(**sizes).axes))


def past_lengths(spec: PlannedSpec) -> dict[str, str]:
    """From the symbol of each length of the past to the symbol that it grows by; a static past is an input."""
    lengths: dict[str, str] = {}
    for feedback in spec.feedback:
        present = symbols(spec.outputs[feedback.output].axes)
        for axis, symbol in symbols(spec.inputs[feedback.input].axes).items():
            if added := [name for name in terms(present.get(axis, symbol)) if name != symbol]:
                lengths[symbol] = added[0]
    numbers = (symbol for axes in size_inputs(spec).values() for symbol in symbols(axes).values())
    return lengths | {past: past.removeprefix("past_") for past in numbers if past.startswith("past_")}


def in_case(spec: PlannedSpec, case: Case | ExportSpec) -> PlannedSpec:
    """The planned spec with the dummies, sizes and inputs of a case."""
    dummies, axes = group(spec.dummies, case.dummies), joined_axes(spec.axes, case.axes)
    return evolve(spec, dummies=dummies, axes=axes, inputs=named(spec.inputs, case.inputs))


def with_dummies(spec: PlannedSpec, *specs: ExportSpec) -> PlannedSpec:
    """The planned spec with other dummies: `with_dummies(spec, padded("none"))`."""
    return in_case(spec, compose(*specs))
