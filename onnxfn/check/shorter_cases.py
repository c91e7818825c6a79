"""Cases of a large model that run without equal layers.

A case of images, videos or series may take half a minute for each of them, in PyTorch and in ONNX Runtime. The first
case runs the whole file. It shows whether the file computes what PyTorch does. The other cases show whether the graph
is right at other sizes. For that, one of several equal layers is enough, see `equal_layers.py`: the others are left out
in PyTorch and in the graph. If one of the two does not run without them, or they do not agree, the whole file runs in
this case, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from onnxfn.check.cases import CheckCase, batch_size
from onnxfn.check.equal_layers import FewerLayers, fewer_layers
from onnxfn.check.exact_outputs import exact_outputs
from onnxfn.check.layer_calls import LayerChain, recorded_chains, without_layers
from onnxfn.check.operations import counted_operations
from onnxfn.check.references import Reference, ReferenceOfCase, Shorter, always_whole, reference_by_rows
from onnxfn.check.sections.runs import written_graph
from onnxfn.specs.axes import symbols
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import has_large_inputs
from onnxfn.specs.planned import Part

LARGE_COST = 400_000_000_000
"""The operations from which on a case is shortened: 4 seconds of two cores in PyTorch, as many in ONNX Runtime."""


def with_shorter_cases(model: Any, part: Part, file: Path, large_cost: int = LARGE_COST) -> ReferenceOfCase:
    """A function from a case of a part, and one that computes its whole reference, to its reference.

    The first case is computed as a whole, and the calls of the layers are recorded. Those of the next ones that cost
    much are computed without the layers of `file` that equal another.
    """
    if part.spec.target.quantization or part.spec.target.float_dtype not in (None, "float32") or part.spec.feedback:
        return always_whole
    firsts: list[_First] = []

    def reference(case: CheckCase, whole: Callable[[], Reference]) -> Reference:
        if not firsts:
            with recorded_chains(model) as chains, counted_operations(model) as operations:
                first = whole()
            layers = cache(partial(_fewer_layers, model, part, file, chains(), first.inputs))
            firsts.append(_First(case, operations() // batch_size(case.spec), layers))
            return first
        is_large = case.real_inputs is None and has_large_inputs(case.spec, 0)
        left = firsts[0].layers() if is_large and firsts[0].row_cost * batch_size(case.spec) >= large_cost else None
        if left is not None:
            with suppress(CaptureFailed):  # the model reads what only a layer that is left out makes
                return _shorter(model, part, case, firsts[0].case, left, whole)
        return whole()

    return reference


@frozen
class _First:
    """The first case, with the operations for a row of its inputs, and a function that finds equal layers."""

    case: CheckCase
    row_cost: int
    layers: Callable[[], FewerLayers | None]


def _fewer_layers(
    model: Any, part: Part, file: Path, chains: tuple[LayerChain, ...], inputs: Mapping[str, Array]
) -> FewerLayers | None:
    sizes = {
        symbol: inputs[input_.name].shape[axis]
        for input_ in part.spec.inputs
        for axis, symbol in symbols(input_.axes).items()
    }
    return fewer_layers(written_graph(file), chains, model.state_dict(keep_vars=True), sizes) if chains else None


def _shorter(
    model: Any, part: Part, case: CheckCase, single: CheckCase, layers: FewerLayers, whole: Callable[[], Reference]
) -> Reference:
    """The reference of a case without equal layers. `whole` computes it with all of them; `single` may be its row."""

    def exact(of_part: Part, arrays: Mapping[str, Array]) -> tuple[str, tuple[Array, ...]]:
        with without_layers(model, layers.left_out):  # a copy of the model in a wider dtype is without them, too
            return exact_outputs(model, part.spec.target.float_dtype)(of_part, arrays)

    def other(number: int, function: Callable[[int], Reference]) -> Reference:
        with without_layers(model, layers.left_out):
            return function(number)

    with without_layers(model, layers.left_out):
        reference = reference_by_rows(model, part, case, single)
    left = layers.layers - len(layers.left_out)
    return evolve(
        reference,
        case=f"{reference.case}, {left} of {layers.layers} layers",
        other=None if reference.other is None else cache(partial(other, function=reference.other)),
        alone=None,
        shorter=Shorter(layers.content, exact, whole),
    )
