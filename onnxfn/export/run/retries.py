"""What is built in another way after a failure: each attempt is a row of RETRIES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cases.runnable_sizes import with_limits
from onnxfn.check.limits import FoundLimits, found_limits
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.export.run.file_checks import Job
from onnxfn.export.run.runnable_images import moves_images, with_fixed_images
from onnxfn.graphs.build import UnboundGraph, captured_once, traced_fully
from onnxfn.graphs.build_options import BuildOptions, trace_all_layers
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.trace_conditions import fake_outputs
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.run.sessions import kept_session
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.conditions import Condition, is_true
from onnxfn.specs.errors import FixedSizes, OnnxfnError
from onnxfn.specs.plan.check_cases import resized
from onnxfn.specs.plan.size_cases import Sizes, other_sides, within
from onnxfn.specs.stored.reports import StageTimer, no_tick
from onnxfn.weights.write import ResolvedWriteOptions


@frozen
class Output:
    """How the graphs of a plan are built and written.

    Attributes:
        build: How graphs are built.
        options: How the files are written.
        calibrated: From a model, a part, a plan, a graph and the timer to the graph with calibrated weights.
        chosen: From a model, a plan and the timer to the plan with bits that are chosen within a limit.
        adapter: The adapter that fills inputs of the graphs, if there is one.
        unbound_graph: Builds graphs; it traces once for variants of the same float dtype.
    """

    build: BuildOptions
    options: ResolvedWriteOptions
    calibrated: Callable[[Any, Part, Plan, Any, StageTimer], Any]
    chosen: Callable[[Any, Plan, StageTimer], Plan]
    adapter: Path | None = None
    unbound_graph: UnboundGraph = field(factory=captured_once)


def with_all_layers(output: Output) -> Output:
    """The output of graphs whose layers are all traced, and that no cache has."""
    return evolve(output, build=evolve(output.build, find_repeats=trace_all_layers, template_cache=None))


@frozen
class Failure:
    """Why the files of an attempt are not published.

    Attributes:
        error: What was raised.
        plan: What was built.
        graphs: The graphs of the attempt; none if a part could not be traced.
        faults: Where the file of each part is wrong; none if no file was checked.
    """

    error: Exception
    plan: Plan
    graphs: tuple[BuiltGraph, ...]
    faults: tuple[FoundLimits, ...] = ()


def _all_layers(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """All layers are traced: repeated layers, or those of the template cache, may be wrong."""
    return None if all(map(traced_fully, failure.graphs)) else (job, with_all_layers(output))


def _at_larger_sizes(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """The trace is at twice the sizes, or where the file was wrong at larger ones: the side of most branches.

    A model may also ask whether a size is that of the sample, and fix it.
    """
    if not any(fault.wrong for fault in failure.faults) and not isinstance(failure.error, FixedSizes):
        return None
    faults = failure.faults or (FoundLimits(),) * len(failure.plan.parts)
    parts = [_traced_at(part, fault.wrong) for part, fault in zip(failure.plan.parts, faults, strict=True)]
    return evolve(job, plan=evolve(job.plan, parts=parts)), with_all_layers(output)


def _traced_at(part: Part, failed: Sequence[Sizes]) -> Part:
    """A part that is traced where each axis has twice its size, or the largest of some sizes."""
    sizes = known_sizes(part.spec, {})
    larger = {name: max(2 * size, *(each.get(name, 0) for each in failed), 2) for name, size in sizes.items()}
    return evolve(part, spec=resized(part.spec, within(larger, part.spec.limits)))


def _joined(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """Traces at several fixed sizes are joined: a branch on sizes may decide about numbers alone."""
    if not failure.faults or any(part.spec.derived is None for part in job.plan.parts):
        return None
    traced = with_all_layers(output)
    # Another plan, though equal: an error that traces do not fit together is not shown.
    return evolve(job, plan=evolve(job.plan)), evolve(traced, build=evolve(traced.build, joins_traces=True))


def _limited(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """Sizes at which the file was wrong are left out: by conditions of the model's branches, or images have one size.

    torch cannot solve all conditions on sizes, so for some models no condition explains the sizes.
    """
    if any(fault.limits for fault in failure.faults):
        pairs = zip(failure.plan.parts, failure.faults, strict=True)
        parts = [evolve(part, spec=with_limits(part.spec, fault.limits)) for part, fault in pairs]
    else:
        parts = [with_fixed_images(part) if moves_images(part) else part for part in job.plan.parts]
    if parts == [*job.plan.parts] or not isinstance(failure.error, OnnxfnError):
        return None
    return evolve(job, plan=evolve(job.plan, parts=parts)), with_all_layers(output)


Change = Callable[[Job, Output, Failure], tuple[Job, Output] | None]
"""What an attempt changes after a failure; None where it would change nothing."""

RETRIES: tuple[tuple[str, Change], ...] = (
    ("all layers", _all_layers),
    ("several traces", _joined),
    ("larger sizes", _at_larger_sizes),
    ("limits of sizes", _limited),
)
"""The attempts after the first: the stage of its event, and what it changes."""


def with_other_sides(
    requested: Job, job: Job, output: Output, graphs: Sequence[BuiltGraph]
) -> tuple[Job, Output] | None:
    """An attempt at two graphs for each part that one condition limits, one for each side of it; None for no such part.

    `requested`: the job without the limits that other attempts have found. The others are of the attempt that passed.
    """
    limits = [part.spec.limits for part in requested.plan.parts]
    pairs = zip(job.plan.parts, limits, strict=True)
    parts = [evolve(part, spec=evolve(part.spec, limits=of_part)) for part, of_part in pairs]
    tried = (_other_side(job.model, part, graph) for part, graph in zip(parts, graphs, strict=True))
    sides = tuple(side for side in tried if side is not None)
    if not sides or job.check != "whole":
        return None
    traced = with_all_layers(output)
    return (
        evolve(job, plan=evolve(job.plan, parts=parts)),
        evolve(traced, build=evolve(traced.build, other_sides=sides)),
    )


def _other_side(model: Any, part: Part, graph: BuiltGraph) -> tuple[Condition, Part] | None:
    """The only condition that limits the graph of a part, and the part at the largest sizes of its other side."""
    stated, base = {each.text for each in part.spec.limits}, known_sizes(part.spec, {})
    limits = [each for each in graph.limits if each.text not in stated]
    if len(limits) != 1 or part.spec.derived is None:
        return None
    cases = other_sides(base, limits, lambda sizes: all(is_true(text, base | dict(sizes)) for text in stated))
    for case in sorted(cases, key=lambda case: -prod(case.sizes.values())):
        other = evolve(part, spec=resized(part.spec, case.sizes))
        if not is_true(limits[0].text, base | dict(case.sizes)) and fake_outputs(model, other, {}):
            return limits[0], other
    return None


def faults_of(job: Job, graphs: Sequence[BuiltGraph]) -> tuple[FoundLimits, ...]:
    """Where the file of each part is wrong, which has this graph."""
    dtype = job.plan.parts[0].spec.target.float_dtype
    model = in_dtype_if_small(job.model, dtype)
    session_for, exact = partial(kept_session, {}, no_tick), exact_outputs(model, dtype)
    try:
        return tuple(
            found_limits(model, part, job.folder / f"{part.name}.onnx", session_for, exact, graph.guards)
            for part, graph in zip(job.plan.parts, graphs, strict=True)
        )
    except OnnxfnError:  # a file cannot be loaded at all
        return ()
