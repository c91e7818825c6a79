"""The sizes of images that a model can take, found in PyTorch before a graph is built.

Some models cannot take small images: a detector picks its 300 best positions, and a small image has fewer. How small an
image may be depends on the configuration. So PyTorch runs each case of the check once, on a single image. A case with
too small images gets the smallest size that the model takes. If the model takes only images of the traced size, height
and width are fixed in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any

from attrs import evolve

from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import dummies, known_sizes, sized
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.axis_symbols import AxisFacts, fixed_sizes, joined_axes, ranges
from onnxfn.specs.conditions import Condition
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import cases, in_case, is_far, resized, with_dummies
from onnxfn.specs.plan.size_cases import Sizes

IMAGE_AXES = ("height", "width")
"""The symbols of the sides of an image."""

LARGEST_SIDE = 1024
"""The largest side of an image that is tried."""

STEP = 8
"""Sizes are tried in steps of an 8th of the case."""


def with_runnable_images(model: Any, plan: Plan) -> Plan:
    """A plan with image sizes that the model can take in traces and cases; a fixed size if the model takes only one.

    It runs the model in PyTorch: pass a `model_copy` if other threads may call the model.
    """
    return evolve(plan, parts=[_runnable_part(model, part) for part in plan.parts])


def smallest_runnable(sizes: Sizes, unit: int, runs: Callable[[Sizes], bool]) -> Sizes | None:
    """The smallest sizes at which `runs` is true, with about the proportions of `sizes`; `runs(sizes)` is false.

    All are multiples of `unit`. None if it is false up to `LARGEST_SIDE`.

    >>> smallest_runnable({"height": 96, "width": 128}, 32, lambda sizes: sizes["height"] * sizes["width"] > 15000)
    {'height': 128, 'width': 160}
    """
    low, high = STEP, STEP + 1
    while not runs(_scaled(sizes, unit, high)):
        low, high = high, 2 * high
        if max(_scaled(sizes, unit, high).values()) > LARGEST_SIDE:
            return None
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if runs(_scaled(sizes, unit, middle)) else (middle, high)
    return _scaled(sizes, unit, high)


def _scaled(sizes: Sizes, unit: int, steps: int) -> Sizes:
    """Sizes times `steps / STEP`, rounded up to multiples of `unit`; odd ones where any number is a multiple."""
    scaled = {name: -(-size * steps // (STEP * unit)) * unit for name, size in sizes.items()}
    return {name: size | 1 for name, size in scaled.items()} if unit == 1 else scaled


def _runnable_part(model: Any, part: Part) -> Part:
    """The part with images that the model can take, and the smallest of them if it cannot take all."""
    spec, traced = part.spec, image_sizes(part.spec)
    if not traced:
        return part
    every_case = cases(spec)
    planned = [image_sizes(in_case(spec, case)) for case in every_case]
    unit = gcd(*(size for sizes in (traced, *planned) for size in sizes.values()))
    moved: list[Sizes] = []
    for case, sizes in zip(every_case, planned, strict=True):
        # A far text is too long to try sizes with: its images are those of the case before.
        runnable = moved[-1] if is_far(case) else _moved(model, part, in_case(spec, case), sizes, unit, traced)
        if runnable is None:
            return with_fixed_images(part)
        moved.append(runnable)
    if not any(all(traced[name] >= size for name, size in sizes.items()) for sizes in moved):
        traced = _moved(model, part, spec, traced, gcd(*traced.values()), {}) or traced
    if moved != planned:
        spec = evolve(spec, limits=_smallest_sizes({name: min(sizes[name] for sizes in moved) for name in traced}))
        spec = evolve(spec, cases=[resized(case, sizes) for case, sizes in zip(every_case, moved, strict=True)])
    return evolve(part, spec=with_dummies(spec, sized(**traced)))


def _moved(model: Any, part: Part, spec: PlannedSpec, sizes: Sizes, unit: int, traced: Sizes) -> Sizes | None:
    """The sizes of a case if the model can take them, else the smallest that it can; never those of the trace."""
    runs = partial(_runs, model, part, spec)
    if runs(sizes):
        return sizes
    smallest = smallest_runnable(sizes, unit, lambda tried: tried != traced and runs(tried))
    # None if the model takes those of the trace alone. If it takes not even these, the fault is another.
    return None if smallest is None and traced and runs(traced) else smallest or sizes


def _runs(model: Any, part: Part, spec: PlannedSpec, sizes: Sizes) -> bool:
    """Whether PyTorch can run the model on a single image of this size."""
    single = {name: 1 for name in known_sizes(spec, {}) if name == spec.batch and name not in fixed_sizes(spec)}
    try:
        torch_outputs(model, part, dummies(with_dummies(spec, sized(**sizes)), single))
    except CaptureFailed:
        return False
    return True


def with_fixed_images(part: Part) -> Part:
    """The part for images of the traced size alone: height and width are numbers in the graph, and limits of it."""
    sizes = image_sizes(part.spec)
    fixed = (AxisFacts(name, low=size, high=size) for name, size in sizes.items())
    axes = joined_axes(part.spec.axes, fixed)
    return evolve(part, spec=evolve(part.spec, axes=axes, limits=_smallest_sizes(sizes)))


def moves_images(part: Part) -> bool:
    """Whether a side of the images of a part is dynamic, and no range of its sizes is asked for."""
    sides = image_sizes(part.spec)
    return bool(sides) and not sides.keys() & ranges(part.spec).keys()


def image_sizes(spec: PlannedSpec) -> Sizes:
    """The sizes of the dynamic sides of images."""
    sizes = known_sizes(spec, {})
    return {name: sizes[name] for name in IMAGE_AXES if name in sizes and name not in fixed_sizes(spec)}


def _smallest_sizes(sizes: Sizes) -> Sequence[Condition]:
    return tuple(Condition(f"{name} >= {size}") for name, size in sizes.items())
