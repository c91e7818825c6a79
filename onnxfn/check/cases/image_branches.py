"""Models that compute other functions for images of other sizes: no trace holds for all sizes.

Some models resize or pad an image only if its sides are no multiples of a number. A trace has one of the branches. Such
a model is exported for images of the traced size. Whether it is such a model is seen in PyTorch, which runs it on
images of the trace, of each case, and of sizes a little above the trace: the sides of the cases may be multiples, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from onnxfn.check.cases.image_sizes import Sizes, image_sizes, run_single_image, with_fixed_images
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import cases, in_case, with_dummies

LARGER = (8, 16, 24, 32)
"""How many pixels larger than the images of the trace the images are on which a model runs."""


def without_image_branches(model: Any, plan: Plan) -> Plan:
    """The plan; the size of images is fixed in each part whose model calls other functions for other images.

    PyTorch runs the model meanwhile: callers whose model other threads may call pass a `model_copy`.
    """
    return evolve(plan, parts=[with_fixed_images(part) if _branches(model, part) else part for part in plan.parts])


def _branches(model: Any, part: Part) -> bool:
    """Whether a model calls other functions of torch for the images of a case, or for slightly larger ones."""
    spec, traced = part.spec, image_sizes(part.spec)
    if not traced:
        return False
    in_trace = _called(model, part, spec, traced)
    planned = [in_case(spec, case) for case in cases(spec)]
    larger = [with_dummies(spec, sized(**{name: size + more for name, size in traced.items()})) for more in LARGER]
    return any(_called(model, part, each, image_sizes(each)) not in ((), in_trace) for each in (*planned, *larger))


def _called(model: Any, part: Part, spec: PlannedSpec, sizes: Sizes) -> tuple[str, ...]:
    """The names of the functions of torch that a model calls for a single image of this size; none if it cannot run."""
    calls: list[str] = []

    def run(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        calls.append(getattr(function, "__name__", "a function"))
        return function(*arguments, **named)

    try:
        with torch_functions(run):
            run_single_image(model, part, spec, sizes)
    except CaptureFailed:
        return ()
    return tuple(calls)
