"""Ranges of dynamic axes: the sizes of the trace and of the check lie in them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from onnxfn.specs.algebra.planned import Case, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies
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
