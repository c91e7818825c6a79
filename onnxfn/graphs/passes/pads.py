"""A pass that keeps ONNX Runtime from moving the padding of a Pad into a MaxPool."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes.constants import int_constant, integers
from onnxfn.graphs.nodes.nodes import first_input, is_operator, producer


def separate_pads(model: Any) -> Any:
    """Names the axes of a Pad that a MaxPool reads.

    Before: a Pad of all axes fills with zeros, and a MaxPool reads it. ONNX Runtime 1.31 moves such padding into the
    MaxPool, whose own padding is the lowest number: where all elements are negative, the largest is not 0 any more.
    After: the Pad has its axes as an input, so ONNX Runtime leaves it where it is (`pad_fusion.cc`). The graph computes
    the same.
    """
    for node in list(model.graph):
        pad = _pad_before(node) if is_operator(node, "MaxPool") else None
        sizes = integers(pad.inputs[1]) if pad is not None and len(pad.inputs) <= 3 else None  # noqa: PLR2004 - no axes
        if sizes and any(sizes):
            _name_axes(model.graph, pad, sizes)
    return model


def _pad_before(pool: Any) -> Any:
    """The Pad that a pool reads, also through a Cast; None if it reads another node."""
    cast = producer(pool.inputs[0], "Cast")
    return producer(first_input(cast) if cast is not None else pool.inputs[0], "Pad")


def _name_axes(graph: Any, pad: Any, sizes: tuple[int, ...]) -> None:
    """Gives a Pad the sizes of the axes that it pads, and these axes."""
    rank = len(sizes) // 2
    axes = [axis for axis in range(rank) if sizes[axis] or sizes[rank + axis]]
    ends = [sizes[start + axis] for start in (0, rank) for axis in axes]
    pad.resize_inputs(4)
    pad.replace_input_with(1, int_constant(graph, *ends))
    pad.replace_input_with(3, int_constant(graph, *axes))
