"""The axes of the outputs of a derived spec, from a trace of the module."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from attrs import evolve

from onnxfn.export.derive.probe import Run, own_symbol
from onnxfn.export.derive.sample_runs import at_sizes, first_runs
from onnxfn.graphs.capture.capture import tracing
from onnxfn.graphs.capture.output_formulas import output_words
from onnxfn.graphs.capture.trace_conditions import fake_outputs
from onnxfn.specs.algebra.compose import named
from onnxfn.specs.algebra.dummies import known_sizes, with_sizes_as_axes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import pattern, symbols, terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.size_cases import Sizes, within


def with_traced_axes(model: Any, spec: ExportSpec, run: Run) -> ExportSpec:
    """The spec with the axes that its outputs have in a trace; a size without a formula has a symbol of its own.

    An axis that the trace fixes has the word that the runs gave it. So has one that equals an axis of an input within
    the limits of a module. If outputs have the axes of the spec at far sizes, it is not traced. `run`: at near sizes.
    """
    part, traced = Part("model", resolved(spec, {})), tuple[tuple[str, ...], ...]()
    far, after = _far_run(model, part)
    if _is_right_far_away(spec, run, far, after):
        return spec
    sizes = known_sizes(part.spec, {})
    with suppress(CaptureFailed, InvalidSpec):  # the export says so
        traced = output_words(model, part)
    outputs, own = [], dict[str, str]()
    for number, (output, of_trace) in enumerate(zip(spec.outputs, traced, strict=False)):
        words = pattern(output.axes).split()
        for at, word in enumerate(of_trace):
            if not word.isdecimal() and not (spec.limits and words[at] in sizes):
                # A trace may assume that a number of elements is even, as it is in the sample.
                is_wrong = "[" in word or (after is not None and value(word, far) != after[number].shape[at])
                words[at] = own.setdefault(word, own_symbol(output.name, at)) if is_wrong else word
        outputs.append(evolve(output, axes=" ".join(words)))
    return _with_moving_outputs(model, evolve(spec, outputs=named(spec.outputs, outputs)))


def _far_run(model: Any, part: Part) -> tuple[Sizes, tuple[Any, ...] | None]:
    """Sizes where lengths are 2, 3, ... times as large, and the outputs there; None if a size depends on values."""
    near, batch = known_sizes(part.spec, {}), batch_symbol(part.spec)
    # An image that a model resizes to a fixed height has the same width at twice its size.
    grown = {name: near[name] * times + 1 for times, name in enumerate([each for each in near if each != batch], 2)}
    far = within({**near, **grown}, part.spec.limits)
    part = with_sizes_as_axes(part)
    with tracing(model, part, {}):
        return far, fake_outputs(model, part, far)


def _is_right_far_away(spec: ExportSpec, run: Run, far: Sizes, after: tuple[Any, ...] | None) -> bool:
    """Whether each axis of the outputs has the size of one of the inputs, or one size, also at far sizes."""
    moving = [symbols(output.axes) for output in spec.outputs]
    is_known = all(far.keys() >= {*terms(symbol)} for each in moving for symbol in each.values())
    if after is None or far == known_sizes(resolved(spec, {}), {}) or not is_known:
        return False
    before = [run.shapes[output.forward_path] for output in spec.outputs]
    return all(
        far_output.shape == tuple(value(each[at], far) if at in each else size for at, size in enumerate(near_shape))
        for each, near_shape, far_output in zip(moving, before, after, strict=True)
    )


def _with_moving_outputs(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec with a larger second case if an axis of an output, such as `samples//160`, has one size in all cases.

    Not if the module does not run at that size.
    """
    sizes = known_sizes(resolved(spec, {}), {})
    of_outputs = {symbol for output in spec.outputs for symbol in symbols(output.axes).values()}
    formulas = [symbol for symbol in of_outputs if sizes.keys() >= {*terms(symbol)}]
    steps = (CASE_STEPS[1] << doublings for doublings in range(16))
    grown = ({name: size + step for name, size in sizes.items()} for step in steps)
    larger = next((each for each in grown if all(value(of, each) != value(of, sizes) for of in formulas)), sizes)
    if any(larger[name] > size + CASE_STEPS[1] for name, size in sizes.items()):
        with suppress(InvalidSpec):
            moving_spec = at_sizes(spec, sizes, several=larger)
            first_runs(model, moving_spec, {})
            return moving_spec
    return spec
