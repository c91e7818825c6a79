"""The sizes of images that a model can take, found in PyTorch before a graph is built."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from onnxfn.check.cases.runnable_sizes import fixed_axes, grown, runnable_limits, with_limits
from onnxfn.graphs.capture.trace_conditions import check_ranges
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import dummies, known_sizes, sized
from onnxfn.specs.algebra.planned import Case, Part, Plan, PlannedSpec
from onnxfn.specs.axis_symbols import fixed_sizes, ranges
from onnxfn.specs.conditions import Condition, range_of, symbols_of
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import cases, in_case, is_far, resized, with_dummies
from onnxfn.specs.plan.size_cases import Sizes, within

IMAGE_AXES = ("height", "width")
"""The symbols of the sides of an image."""


def with_runnable_images(model: Any, plan: Plan) -> Plan:
    """A plan with image sizes that the model, which is run, can take, in traces and cases, and their limits."""
    return evolve(plan, parts=[_runnable_part(model, part) for part in plan.parts])


def _runnable_part(model: Any, part: Part) -> Part:
    """The part, with limits of the sizes of its images if the model does not run in all of its cases."""
    spec, traced = part.spec, image_sizes(part.spec)
    # A far text is too long to try sizes with.
    near = [in_case(spec, case) for case in cases(spec) if not is_far(case)]
    if not traced or all(_runs(model, part, each, image_sizes(each)) for each in near):
        return part
    runs = partial(_runs, model, part, spec)
    # Sides up to 1024 are tried, each twice the one before.
    doublings = range(max(1, (1024 // max(traced.values())).bit_length()))
    base = next(filter(runs, ({name: size << times for name, size in traced.items()} for times in doublings)), None)
    if base is None:  # the fault is another
        return part
    limits = runnable_limits(_least_half(base, runs), runs)
    check_ranges(model, part, {name: range_of(limits, name) for name in base})
    limited = with_limits(resized(spec, grown(traced, limits)), limits)
    return evolve(part, spec=evolve(limited, cases=[_case_within(limited, case, limits) for case in cases(spec)]))


def _least_half(sizes: Sizes, runs: Callable[[Sizes], bool]) -> Sizes:
    """The sizes, halved as long as the model runs: a search that begins with them takes less time."""
    halves = {name: size // 2 for name, size in sizes.items()}
    return _least_half(halves, runs) if min(halves.values()) > 0 and runs(halves) else sizes


def _case_within(spec: PlannedSpec, case: Case, limits: Sequence[Condition]) -> Case:
    """A case with images within the limits, larger than those of the trace if they would be the same."""
    sizes, traced = grown(image_sizes(in_case(spec, case)), limits), image_sizes(spec)
    return resized(case, sizes if sizes != traced else within({name: size + 1 for name, size in sizes.items()}, limits))


def _runs(model: Any, part: Part, spec: PlannedSpec, sizes: Sizes) -> bool:
    """Whether PyTorch can run the model on a single image of this size."""
    single = {name: 1 for name in known_sizes(spec, {}) if name == spec.batch and name not in fixed_sizes(spec)}
    try:
        torch_outputs(model, part, dummies(with_dummies(spec, sized(**sizes)), single))
    except CaptureFailed:
        return False
    return True


def limited_part(part: Part, limits: Sequence[Condition]) -> Part:
    """The part with limits; an axis that they fix at another size than the sample's has the size of the sample."""
    sizes = _sample_sizes(part.spec)
    moved = [axis.name for axis in fixed_axes(limits) if axis.low != sizes[axis.name]]
    own = [limit for limit in limits if not {*moved} & {*symbols_of(limit.text)}]
    return with_fixed(evolve(part, spec=with_limits(part.spec, own)), {name: sizes[name] for name in moved})


def with_fixed_images(part: Part) -> Part:
    """The part for images of the size of the sample alone."""
    sizes = _sample_sizes(part.spec)
    return with_fixed(part, {name: sizes[name] for name in image_sizes(part.spec)})


def with_fixed(part: Part, sizes: Sizes) -> Part:
    """The part where some axes have one size alone: it is a number in the graph, and a limit of it."""
    limits = [Condition(f"{name} == {size}") for name, size in sizes.items()]
    return evolve(part, spec=with_limits(resized(part.spec, sizes), limits))


def _sample_sizes(spec: PlannedSpec) -> Sizes:
    """The sizes of the sample that a spec is derived from; of another spec those of its trace."""
    return known_sizes(next((in_case(spec, each) for each in cases(spec) if each.name == "sample"), spec), {})


def moves_images(part: Part) -> bool:
    """Whether a side of the images of a part is dynamic, and no range of its sizes is asked for."""
    sides = image_sizes(part.spec)
    return bool(sides) and not sides.keys() & ranges(part.spec).keys()


def keep_ranges(parts: Iterable[Part], limited: Iterable[Part]) -> bool:
    """Whether the axes with a range of sizes that is asked for are dynamic in other parts, too."""
    return [ranges(part.spec).keys() for part in parts] == [ranges(part.spec).keys() for part in limited]


def image_sizes(spec: PlannedSpec) -> Sizes:
    """The sizes of the dynamic sides of images."""
    sizes = known_sizes(spec, {})
    return {name: sizes[name] for name in IMAGE_AXES if name in sizes and name not in fixed_sizes(spec)}
