"""Cases of a large model that run without equal layers.

A case of large images or videos may take half a minute for each image, in PyTorch and in ONNX Runtime. The first case
runs the whole file. It shows whether the file computes what PyTorch does. The other cases show whether the graph is
right at other sizes. For that, one of several equal layers is enough, see `equal_layers.py`: the others are left out in
PyTorch and in the graph. If one of the two does not run without them, or they do not agree, the whole file runs in this
case, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.cases import CheckCase, multiplied_parameters
from onnxfn.check.equal_layers import FewerLayers, fewer_layers
from onnxfn.check.exact_outputs import exact_outputs
from onnxfn.check.layer_calls import LayerChain, recorded_chains, without_layers
from onnxfn.check.references import Reference, ReferenceOfCase, Shorter, always_whole, reference_by_rows
from onnxfn.check.sections.runs import written_graph
from onnxfn.specs.axes import symbols
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import has_large_inputs
from onnxfn.specs.planned import Part

LARGE_COST = 300_000_000_000_000
"""The numbers of the images of a case times the parameters of the model from which on the case is shortened.

Patches of 16 x 16 pixels in three colors have 768 numbers, and a parameter costs two operations for each patch. So this
is 0.8 TFLOP: 8 seconds of two cores in PyTorch, and as many in ONNX Runtime.
"""


def with_shorter_cases(model: Any, part: Part, file: Path, large_cost: int = LARGE_COST) -> ReferenceOfCase:
    """A function from a case of a part, and one that computes its whole reference, to its reference.

    The first case is computed as a whole, and the calls of the layers are recorded. Those of the next ones that cost
    much are computed without the layers of `file` that equal another.
    """
    if part.spec.target.quantization or part.spec.target.float_dtype not in (None, "float32") or part.spec.feedback:
        return always_whole
    firsts: list[tuple[CheckCase, Callable[[], FewerLayers | None]]] = []
    least = large_cost // max(1, multiplied_parameters(model))

    def reference(case: CheckCase, whole: Callable[[], Reference]) -> Reference:
        if not firsts:
            with recorded_chains(model) as chains:
                first = whole()
            firsts.append((case, cache(partial(_fewer_layers, model, part, file, chains(), first.inputs))))
            return first
        single, layers = firsts[0]
        left = layers() if case.real_inputs is None and has_large_inputs(case.spec, least) else None
        if left is not None:
            with suppress(CaptureFailed):  # the model reads what only a layer that is left out makes
                return _shorter(model, part, case, single, left, whole)
        return whole()

    return reference


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
