"""Running results along an axis, such as the largest element so far: a Scan of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir
from onnxscript import evaluator
from onnxscript import opset18 as op

Step = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""From the states, and the elements of one index along the axis, to the next states."""


def running(step: Step, states: Sequence[Any], tensors: Sequence[Any], axis: int, prefix: str) -> tuple[Any, ...]:
    """The states after each index along an axis of some tensors, one tensor of their shape for each state.

    `step` computes the next states on onnxscript values. It may read no other value. A first state has the shape of the
    tensors without the axis; all tensors have a dtype and the same shape. `prefix` starts the names of the values in
    the step, which must be no names of values around it.
    """
    shape = [size for index, size in enumerate(tensors[0].shape) if index != axis]
    state_inputs, elements = (
        [onnx_ir.val(f"{prefix}_{kind}_{index}", value.dtype, shape) for index, value in enumerate(values)]
        for kind, values in (("state", states), ("element", tensors))
    )
    recorder: Any = evaluator.default()
    body = _body(step, state_inputs, elements, prefix)
    counts = len(states), len(tensors)
    scan = onnx_ir.Node(
        "",
        "Scan",
        [*states, *tensors],
        [
            onnx_ir.AttrGraph("body", body),
            onnx_ir.AttrInt64("num_scan_inputs", counts[1]),
            onnx_ir.AttrInt64s("scan_input_axes", [axis] * counts[1]),
            onnx_ir.AttrInt64s("scan_output_axes", [axis] * counts[0]),
        ],
        num_outputs=2 * counts[0],
    )
    recorder.nodes.append(scan)
    return tuple(scan.outputs[counts[0] :])


def _body(step: Step, states: Sequence[Any], elements: Sequence[Any], prefix: str) -> Any:
    """The graph of one step: the next states, and these again as the outputs of this index."""
    recorder: Any = evaluator.default()
    start = len(recorder.nodes)
    next_states = tuple(step(states, elements))
    outputs = (*next_states, *map(op.Identity, next_states))
    nodes = recorder.nodes[start:]
    del recorder.nodes[start:]
    for number, value in enumerate(value for node in nodes for value in node.outputs):
        value.name = f"{prefix}_{number}"
    for output, state in zip(outputs, (*states, *states), strict=True):
        output.shape, output.type = state.shape, state.type
    return onnx_ir.Graph((*states, *elements), outputs, nodes=nodes, name=f"{prefix}_step")
