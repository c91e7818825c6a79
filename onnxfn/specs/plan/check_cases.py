"""The cases that a planned spec is checked in: other sizes and other dummies than the traced ones."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.axes import names, symbols, terms
from onnxfn.specs.compose import compose, group, named
from onnxfn.specs.dummies import planned_sizes
from onnxfn.specs.planned import Case, PlannedSpec
from onnxfn.specs.records import DummySize
from onnxfn.specs.spec import Dummies, ExportSpec


def cases(spec: PlannedSpec) -> tuple[Case, ...]:
    """The cases that a planned spec is checked in: its own, or one of batch 1 and one of batch 3, all else longer."""
    if spec.cases:
        return spec.cases
    used = dict.fromkeys(name for one in spec.inputs for name in names(one.axes))
    traced = planned_sizes(spec, used)
    single = {name: 1 if name == "batch_size" else size + 3 for name, size in traced.items()}
    several = {name: 3 if name == "batch_size" else size + 5 for name, size in traced.items()}
    return tuple(
        Case(name, Dummies(sizes=tuple(DummySize(*size) for size in sizes.items())))
        for name, sizes in (("one", single), ("several", several))
    )


def past_lengths(spec: PlannedSpec) -> dict[str, str]:
    """The size that a past has -> the size that it grows by: `past_sequence_length`, `sequence_length`."""
    outputs = {one.name: one for one in spec.outputs}
    inputs = {one.name: one for one in spec.inputs}
    return {
        symbol: next(name for name in terms(grown) if name != symbol)
        for feedback in spec.feedback
        for axis, symbol in symbols(inputs[feedback.input].axes).items()
        if (grown := symbols(outputs[feedback.output].axes)[axis]) != symbol
    }


def in_case(spec: PlannedSpec, case: Case) -> PlannedSpec:
    """The planned spec with the dummies and inputs of a case."""
    return evolve(spec, dummies=group(spec.dummies, case.dummies), inputs=named(spec.inputs, case.inputs))


def with_dummies(spec: PlannedSpec, *specs: ExportSpec) -> PlannedSpec:
    """The planned spec with other dummies: `with_dummies(spec, padded("none"))`."""
    return evolve(spec, dummies=group(spec.dummies, compose(*specs).dummies))
