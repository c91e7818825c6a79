"""The axes of the outputs of a derived spec, from a trace of the module."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attrs import evolve

from onnxfn.export.derive.probe import (
    own_symbol,
)
from onnxfn.export.derive.sample_runs import at_sizes, first_runs
from onnxfn.graphs.capture.output_formulas import output_words
from onnxfn.graphs.capture.trace_errors import fixed_axes
from onnxfn.specs.algebra.compose import named
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import pattern, symbols, terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import CASE_STEPS
from onnxfn.specs.plan.planning import resolved


def with_traced_axes(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec with the axes that its outputs have in a trace; an axis without a formula has a symbol of its own.

    An axis that the trace fixes has the word that the runs gave it. So has one that equals an axis of an input within
    the limits of a module. A module may fix an axis of an input because it keeps a table for its last call, of the same
    size: then it is traced at another size.
    """
    part, traced = Part("model", resolved(spec, {})), tuple[tuple[str, ...], ...]()
    sizes = known_sizes(part.spec, {})
    try:
        traced = output_words(model, part)
    except CaptureFailed as error:
        fixed = {name for _, _, symbol, _ in fixed_axes(part, error.__cause__) for name in terms(symbol)}
        moved = at_sizes(spec, {name: size + CASE_STEPS[0] * (name in fixed) for name, size in sizes.items()}, "fixed")
        with suppress(CaptureFailed, InvalidSpec):
            if fixed:
                first_runs(model, moved, {})
                traced, spec = output_words(model, Part("model", resolved(moved, {}))), moved
    except InvalidSpec:
        pass  # the export says so
    outputs = []
    for output, new_words in zip(spec.outputs, traced, strict=False):
        words = zip(pattern(output.axes).split(), new_words, strict=True)
        axes = (
            old if new.isdecimal() or (spec.limits and old in sizes) else new or own_symbol(output.name, at)
            for at, (old, new) in enumerate(words)
        )
        outputs.append(evolve(output, axes=" ".join(axes)))
    return _with_moving_outputs(model, evolve(spec, outputs=named(spec.outputs, outputs)))


def _with_moving_outputs(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec with a larger second case if an axis of an output, such as `samples//160`, has one size in all cases.

    Not if the module does not run at that size.
    """
    sizes, moved = known_sizes(resolved(spec, {}), {}), dict[str, int]()
    for symbol in {symbol for output in spec.outputs for symbol in symbols(output.axes).values()}:
        for name in terms(symbol) if sizes.keys() >= {*terms(symbol)} else ():
            grown = ({**sizes, name: sizes[name] + (CASE_STEPS[1] << doublings)} for doublings in range(16))
            moving = next((each for each in grown if value(symbol, each) != value(symbol, sizes)), sizes)
            if moving[name] > moved.get(name, sizes[name] + CASE_STEPS[1]):
                moved[name] = moving[name]
    if moved:
        with suppress(InvalidSpec):
            moving_spec = at_sizes(spec, sizes, several=moved)
            first_runs(model, moving_spec, {})
            return moving_spec
    return spec
