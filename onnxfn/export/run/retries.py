"""What is built in another way after a failure: each attempt is a row of RETRIES."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.limits import FoundLimits
from onnxfn.check.variants.overflow import overflowing
from onnxfn.export.load.calibration import Source
from onnxfn.export.run.file_checks import Job
from onnxfn.export.run.runnable_images import keep_ranges, limited_part, moves_images, with_fixed, with_fixed_images
from onnxfn.graphs.build import UnboundGraph, captured_once, traced_fully
from onnxfn.graphs.build_options import BuildOptions, trace_all_layers
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.trace_conditions import check_ranges, fake_outputs
from onnxfn.graphs.wide_values import LARGEST, Reach, keep_in_float32, overflow_text, unmeasured_nodes
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Case, Part, Plan
from onnxfn.specs.axis_symbols import fixed_sizes, ranges, traced_sizes
from onnxfn.specs.conditions import DENSE_AND_FAR, Condition, is_true, range_conditions, range_of, symbols_of
from onnxfn.specs.errors import CaptureFailed, FixedSizes, OnnxfnError, first_line, listed
from onnxfn.specs.plan.check_cases import cases, resized
from onnxfn.specs.plan.size_cases import Sizes, other_sides, within
from onnxfn.specs.stored.reports import CheckFailed
from onnxfn.weights.write import ResolvedWriteOptions


@frozen
class Output:
    """How the graphs of a plan are built and written, with the inputs that choose bits, codes and scales."""

    build: BuildOptions
    options: ResolvedWriteOptions
    source: Source
    adapter: Path | None = None
    wide: Mapping[str, Reach] = field(factory=dict)
    unbound_graph: UnboundGraph = field(factory=captured_once)


def with_all_layers(output: Output) -> Output:
    """The output of graphs whose layers are all traced, and that no cache has."""
    return evolve(output, build=evolve(output.build, find_repeats=trace_all_layers, template_cache=None))


@frozen
class Failure:
    """Why the files of an attempt at a plan are not published; its graphs, none if a part could not be traced."""

    error: Exception
    plan: Plan
    graphs: tuple[BuiltGraph, ...]
    faults: tuple[FoundLimits, ...] = ()


def _all_layers(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """All layers are traced: repeated layers, or those of the template cache, may be wrong."""
    return None if all(map(traced_fully, failure.graphs)) else (job, with_all_layers(output))


def _at_larger_sizes(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """The trace is at twice the sizes, or at larger ones where the file was wrong: the side of most branches."""
    if not any(fault.wrong for fault in failure.faults) and not isinstance(failure.error, FixedSizes):
        return None
    faults = failure.faults or (FoundLimits(),) * len(failure.plan.parts)
    parts = [_traced_at(part, fault.wrong) for part, fault in zip(failure.plan.parts, faults, strict=True)]
    return evolve(job, plan=evolve(job.plan, parts=parts)), with_all_layers(output)


def _traced_at(part: Part, failed: Sequence[Sizes]) -> Part:
    """A part that is traced where each axis has twice its size, or the largest of some sizes."""
    sizes = known_sizes(part.spec, {})
    larger = {name: max(2 * size, *(each.get(name, 0) for each in failed), 2) for name, size in sizes.items()}
    spec = resized(part.spec, within(larger, part.spec.limits))
    # No case has the sizes of a trace. Those of the first one may be the only ones on a side of a branch.
    first = resized(Case("sizes of the first trace"), {name: sizes[name] for name in sizes.keys() - fixed_sizes(spec)})
    return evolve(part, spec=evolve(spec, cases=(*cases(spec), first)))


def _joined(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """Traces at several fixed sizes are joined: a branch on sizes may decide about numbers alone."""
    if not failure.faults or any(part.spec.derived is None for part in job.plan.parts):
        return None
    traced = with_all_layers(output)
    # Another plan, though equal: an error that traces do not fit together is not shown.
    return evolve(job, plan=evolve(job.plan)), evolve(traced, build=evolve(traced.build, joins_traces=True))


def limited(job: Job, output: Output, failure: Failure) -> tuple[Job, Output] | None:
    """Wrong sizes are left out: by conditions of branches, or, if torch cannot solve these, images have one size."""
    if any(fault.limits for fault in failure.faults):
        pairs = zip(failure.plan.parts, failure.faults, strict=True)
        parts = [limited_part(part, fault.limits) for part, fault in pairs]
    else:
        parts = [with_fixed_images(part) if moves_images(part) else part for part in job.plan.parts]
    is_other = keep_ranges(job.plan.parts, parts) and parts != [*job.plan.parts]
    if not is_other or not isinstance(failure.error, OnnxfnError):
        return None
    return evolve(job, plan=evolve(job.plan, parts=parts)), with_all_layers(output)


Change = Callable[[Job, Output, Failure], tuple[Job, Output] | None]
"""What an attempt changes after a failure; None where it would change nothing."""

RETRIES: tuple[tuple[str, Change], ...] = (
    ("all layers", _all_layers),
    ("several traces", _joined),
    ("larger sizes", _at_larger_sizes),
    ("limits of sizes", limited),
)
"""The attempts after the first: the stage of its event, and what it changes."""


def with_other_sides(
    requested: Job, job: Job, output: Output, graphs: Sequence[BuiltGraph]
) -> tuple[Job, Output] | None:
    """An attempt at two graphs, one for each side of a condition that limits a part; None if none limits one."""
    pairs = zip(job.plan.parts, requested.plan.parts, strict=True)
    parts = [evolve(part, spec=evolve(part.spec, limits=of_request.spec.limits)) for part, of_request in pairs]
    tried = (_other_side(job.model, part, graph) for part, graph in zip(parts, graphs, strict=True))
    sides = tuple(side for side in tried if side is not None)
    if not sides or job.check != "whole":
        return None
    traced = with_all_layers(output)
    traced = evolve(traced, build=evolve(traced.build, other_sides=sides))
    return evolve(job, plan=evolve(job.plan, parts=parts)), traced


def _other_side(model: Any, part: Part, graph: BuiltGraph) -> tuple[Condition, Part] | None:
    """The only condition that limits the graph of a part, and the part at the largest sizes of its other side."""
    ends = [end for name, each in ranges(part.spec).items() for end in range_conditions(name, *each)]
    stated, base = {each.text for each in (*part.spec.limits, *ends)}, known_sizes(part.spec, {})
    limits = [each for each in graph.limits if each.text not in stated]
    if len(limits) != 1 or part.spec.derived is None:
        return None
    cases = other_sides(base, limits, lambda sizes: all(is_true(text, base | dict(sizes)) for text in stated))
    names = symbols_of(limits[0].text)
    sizes = [size for size in DENSE_AND_FAR if len(names) == 1 and not is_true(limits[0].text, {names[0]: size})]
    part = with_fixed(part, {names[0]: sizes[0]} if len(sizes) == 1 else {})  # a number in its graph
    for case in sorted(cases, key=lambda case: -prod(case.sizes.values())):
        other = evolve(part, spec=resized(part.spec, case.sizes))
        if not is_true(limits[0].text, base | dict(case.sizes)) and fake_outputs(model, other, {}):
            return limits[0], other
    return None


def check_asked_ranges(job: Job, graphs: Sequence[BuiltGraph]) -> None:
    """Raises CaptureFailed if a graph of a derived spec takes fewer sizes than the range of an axis; see `capture`."""
    for part, graph in zip(job.plan.parts, graphs, strict=True):
        if part.spec.derived is not None:
            check_ranges(job.model, part, {name: range_of(graph.limits, name) for name in ranges(part.spec)})


def outside_limits(job: Job, graphs: Sequence[BuiltGraph]) -> list[str]:
    """A remark for each part of a derived spec whose limits leave out the sizes of the sample."""
    lines = []
    for part, graph in zip(job.plan.parts, graphs, strict=True):
        sample = (case for case in cases(part.spec) if case.name == "sample")
        sizes = known_sizes(part.spec, {}) | traced_sizes(next(sample, part.spec))
        known = [each.text for each in graph.limits if {*symbols_of(each.text)} <= sizes.keys()]
        if part.spec.derived is not None and not all(is_true(text, sizes) for text in known):
            text = ", ".join(f"{name}={size}" for name, size in sizes.items())
            lines.append(f"the sizes of the sample, {text}, are outside the limits of {part.name}")
    return lines


REFUSED = "export in float32, or with float16_overflow='mend' (the default) and, for what a graph returns, io='float32'"
"""What to do if a file with values that overflow is refused."""

KEPT = "; kept in float32"
"""The end of the remark on values that overflow."""


def with_wide_values(
    job: Job, output: Output, models: Sequence[Any], reasons: dict[str, str], *, in_all_cases: bool
) -> tuple[Job, Output] | None:
    """An attempt that keeps in float32 what overflows in float16; None if nothing else does. CheckFailed if refused."""
    wide, lines, is_mended = dict(output.wide), list[str](), output.build.float16_overflow == "mend"
    for part, model in zip(job.plan.parts, models, strict=True):
        known: Reach = output.wide.get(part.name, {})
        sizes: Reach = {}
        file, inputs = job.folder / f"{part.name}.onnx", (job.texts(part, job.plan), job.real_inputs.get(part.name))
        with job.timed("float16 overflow", part.name) as tick:
            reasons.pop(part.name, None)
            try:
                sizes = overflowing(job.model, part, file, model, *inputs, in_all_cases=in_all_cases, tick=tick)
            except (CaptureFailed, CheckFailed) as error:
                reasons[part.name] = first_line(error)
        left = {name: size for name, size in sizes.items() if name in known and size > LARGEST}
        reached = left or {name: size for name, size in sizes.items() if name not in known}
        wide[part.name], is_mended = {**known, **reached}, is_mended and not left
        lines += [f"{part.name}: {overflow_text(model, reached)}"] if reached else []
    if lines and not is_mended:
        raise CheckFailed(f"{'; '.join(lines)}; {REFUSED}")
    remarks = (*job.plan.remarks, *(line + KEPT for line in lines))
    return (evolve(job, plan=evolve(job.plan, remarks=remarks)), evolve(output, wide=wide)) if lines else None


NOT_RUN: Mapping[str, str] = MappingProxyType(
    {"sections": "a check by sections does not run the whole file", "none": "without a check the file is not run"}
)
"""A check -> why values that overflow are not looked for."""


def unsearched_lines(job: Job, graphs: Sequence[BuiltGraph], reasons: Mapping[str, str]) -> list[str]:
    """A remark for each part in float16 whose values that overflow were not looked for, or not in some nodes."""
    lines = []
    for part, graph in zip(job.plan.parts, graphs, strict=True):
        reason, nodes = NOT_RUN.get(job.check) or reasons.get(part.name), unmeasured_nodes(graph.model)
        if part.spec.target.float_dtype == "float16" and (reason or nodes):
            where, why = (" inside " + listed(nodes), "") if not reason else ("", f": {reason}")
            lines.append(f"{part.name}: values that overflow in float16 were not looked for{where}{why}")
    return lines


def keep_values(plan: Plan, output: Output, models: Sequence[Any]) -> None:
    """Keeps the values in float32 in the graphs of a plan that an output names."""
    for part, model in zip(plan.parts, models, strict=True):
        if output.wide.get(part.name):
            keep_in_float32(model, output.wide[part.name])
