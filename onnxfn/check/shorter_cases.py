"""Cases of a large model that run without equal layers, or with the images of the first case.

A case of images, videos or series may take half a minute for each of them, in PyTorch and in ONNX Runtime. The first
case runs the whole file. It shows whether the file computes what PyTorch does. The other cases show whether the graph
is right at other sizes. For that, one of several equal layers is enough, see `equal_layers.py`: the others are left out
in PyTorch and in the graph. A case of other texts beside images of the same sizes computes the texts alone, see
`same_images.py`. If PyTorch or the graph does not run without the rest, or they do not agree, the whole file runs in
this case, too. A file that chooses by its values is not compared in float64 before that: a choice may be a matter of
rounding, and all outputs then differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from onnxfn.check.cases import CheckCase, batch_size, in_float32_without_cache
from onnxfn.check.choices import picked_positions
from onnxfn.check.equal_layers import FewerLayers, fewer_layers
from onnxfn.check.exact_outputs import ExactOutputs, exact_outputs
from onnxfn.check.layer_calls import LayerChain, listed_layers, recorded_chains, without_layers
from onnxfn.check.operations import counted_operations
from onnxfn.check.references import (
    Reference,
    ReferenceOfCase,
    Shorter,
    always_whole,
    case_reference,
    reference_by_rows,
)
from onnxfn.check.repeated_calls import computed_once, repeated_modules
from onnxfn.check.resumed_runs import outputs_with_answers, recorded_results
from onnxfn.check.same_images import (
    FirstImages,
    first_images,
    has_images_of,
    image_shapes,
    recorded_images,
    with_first_images,
)
from onnxfn.check.sections.runs import WrittenGraph, written_graph
from onnxfn.check.thresholds import compared_values
from onnxfn.specs.axes import symbols
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import has_large_inputs
from onnxfn.specs.planned import Part

LARGE_COST = 400_000_000_000
"""The operations from which on a case is shortened: 4 seconds of two cores in PyTorch, as many in ONNX Runtime."""


def with_shorter_cases(
    model: Any, part: Part, file: Path, large_cost: int = LARGE_COST, *, with_results: bool = False
) -> ReferenceOfCase:
    """A function from a case of a part, and one that computes its whole reference, to its reference.

    The first case is computed as a whole, and the calls of the layers are recorded. Those of the next ones that cost
    much are computed without the layers of `file` that equal another. If `with_results`, those of the layers are kept
    until the first case is compared, to compute it for ONNX Runtime's answers at thresholds: see `resumed_runs.py`.
    """
    if not in_float32_without_cache(part.spec):
        return always_whole
    firsts: list[_First] = []

    def reference(case: CheckCase, whole: Callable[[], Reference]) -> Reference:
        if not firsts:
            first, of_first = _recorded(model, part, file, case, whole, with_results=with_results)
            firsts.append(of_first)
            return first
        is_large = case.real_inputs is None and has_large_inputs(case.spec, 0)
        if is_large and firsts[0].row_cost * batch_size(case.spec) >= large_cost:
            for of_case in (_of_same_images, _of_fewer_layers):
                with suppress(CaptureFailed):  # the model reads what only a layer that is left out makes
                    shorter = of_case(model, part, case, firsts[0], whole)
                    if shorter is not None:
                        return shorter
        return whole()

    return reference


@frozen
class _First:
    """The first case, and what its run shows.

    Attributes:
        case: The case.
        row_cost: The operations for a row of its inputs.
        repeated: The paths of the modules that are called several times.
        layers: Finds the equal layers; None if there are none.
        images: Finds the images that cases of other texts can take; None if there are none.
        chooses: Whether the file picks positions by its values, or compares them with numbers.
    """

    case: CheckCase
    row_cost: int
    repeated: tuple[str, ...]
    layers: Callable[[], FewerLayers | None]
    images: Callable[[], FirstImages | None]
    chooses: Callable[[], bool]


def _recorded(
    model: Any, part: Part, file: Path, case: CheckCase, whole: Callable[[], Reference], *, with_results: bool
) -> tuple[Reference, _First]:
    """The reference of the first case, and what its run shows."""
    with (
        recorded_chains(model) as chains,
        counted_operations(model) as operations,
        repeated_modules(model) as repeated,
        recorded_images(model, image_shapes(case.spec)) as calls,
        recorded_results(listed_layers(model) if with_results else {}) as results,
    ):
        first = whole()
    written = cache(partial(written_graph, file))
    layers = cache(partial(_fewer_layers, model, part, written, chains(), first.inputs))
    of_images = cache(lambda: first_images(written(), part.spec, calls, first) if calls else None)
    if with_results:
        first = evolve(first, answered=partial(outputs_with_answers, model, part, first.inputs, results()))
    chooses = cache(lambda: bool(picked_positions(written()) or compared_values(written())))
    return first, _First(case, operations() // batch_size(case.spec), repeated(), layers, of_images, chooses)


def _fewer_layers(
    model: Any,
    part: Part,
    written: Callable[[], WrittenGraph],
    chains: tuple[LayerChain, ...],
    inputs: Mapping[str, Array],
) -> FewerLayers | None:
    sizes = {
        symbol: inputs[input_.name].shape[axis]
        for input_ in part.spec.inputs
        for axis, symbol in symbols(input_.axes).items()
    }
    return fewer_layers(written(), chains, model.state_dict(keep_vars=True), sizes) if chains else None


def _of_fewer_layers(
    model: Any, part: Part, case: CheckCase, first: _First, whole: Callable[[], Reference]
) -> Reference | None:
    """The reference of a case without equal layers; None if there are none."""
    layers = first.layers()
    if layers is None:
        return None
    within = partial(without_layers, model, layers.left_out)

    def compute() -> Reference:
        with computed_once(model, first.repeated):
            return reference_by_rows(model, part, case, first.case)

    left = f"{layers.layers - len(layers.left_out)} of {layers.layers} layers"
    exact = None if first.chooses() else _exact_within(within, model, part)
    return _within(within, compute, left, Shorter(layers.content, exact, whole))


def _of_same_images(
    model: Any, part: Part, case: CheckCase, first: _First, whole: Callable[[], Reference]
) -> Reference | None:
    """The reference of a case with the images of the first; None if it has others, or the graph needs more of them."""
    images = first.images()
    if images is None or not has_images_of(case, images):
        return None
    within = partial(with_first_images, model, images.calls)
    compute = partial(case_reference, model, part, case, fixed=images.inputs)
    label = f"the images of {first.case.name}"
    exact = None if first.chooses() else _exact_within(within, model, part)
    return _within(within, compute, label, Shorter(images.content, exact, whole, images.fed))


def _exact_within(within: Callable[[], AbstractContextManager[None]], model: Any, part: Part) -> ExactOutputs:
    """A function that computes PyTorch's outputs in a wider dtype within a context."""

    def exact(of_part: Part, arrays: Mapping[str, Array]) -> tuple[str, tuple[Array, ...]]:
        with within():  # a copy of the model in a wider dtype computes as the model does
            return exact_outputs(model, part.spec.target.float_dtype)(of_part, arrays)

    return exact


def _within(
    within: Callable[[], AbstractContextManager[None]],
    compute: Callable[[], Reference],
    label: str,
    shorter: Shorter,
) -> Reference:
    """A reference that is computed within a context, as are others of it."""

    def other(number: int, function: Callable[[int], Reference]) -> Reference:
        with within():
            return function(number)

    with within():
        reference = compute()
    return evolve(
        reference,
        case=f"{reference.case}, {label}",
        other=None if reference.other is None else cache(partial(other, function=reference.other)),
        alone=None,
        shorter=shorter,
    )
