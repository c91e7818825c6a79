"""A call with a static cache as one whose cache grows: the two have the same results."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import evolve

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axes import AxisMap, symbols
from onnxfn.specs.plan.cache_tensors import BUFFER, WRITE_INDICES
from onnxfn.specs.plan.check_cases import past_lengths

Arrays = Mapping[str, Array]


def growing_call(spec: PlannedSpec, arrays: Arrays) -> tuple[PlannedSpec, Arrays, Callable[..., tuple[Array, ...]]]:
    """The spec without `write_indices`, arrays that end with the text, and a function that puts outputs in buffers."""
    past, new = int(arrays[WRITE_INDICES][0]), next(iter(past_lengths(spec).values()))
    inputs = [each for each in spec.inputs if each.name != WRITE_INDICES]
    sizes = {symbol: arrays[each.name].shape[at] for each in inputs for at, symbol in symbols(each.axes).items()}
    pasts = {feedback.output: feedback.input for feedback in spec.feedback}

    def ended(name: str, axes: AxisMap) -> Array:
        end = past if name in pasts.values() else past + sizes[new]
        return arrays[name] if (at := _buffer_axis(axes)) is None else arrays[name].take(range(end), at)

    def in_buffer(name: str, axes: AxisMap, array: Array) -> Array:
        if (at := _buffer_axis(axes)) is None:
            return array
        behind = [(0, 0 if axis != at else sizes[BUFFER] - size) for axis, size in enumerate(array.shape)]
        is_text = np.expand_dims(np.arange(sizes[BUFFER]) < array.shape[at], (*range(1, array.ndim - at),))
        return np.where(is_text, np.pad(array, behind), arrays.get(pasts.get(name, ""), 0)).astype(array.dtype)

    def in_buffers(outputs: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(in_buffer(each.name, each.axes, array) for each, array in zip(spec.outputs, outputs, strict=True))

    return evolve(spec, inputs=tuple(inputs)), {each.name: ended(each.name, each.axes) for each in inputs}, in_buffers


def _buffer_axis(axes: AxisMap) -> int | None:
    return next((axis for axis, symbol in symbols(axes).items() if symbol == BUFFER), None)
