"""How large a graph is."""

from __future__ import annotations

from math import prod
from typing import Any

from onnxfn.graphs.quantization.quantized_slots import quantized_sizes, quantized_slot_of
from onnxfn.specs.stored.reports import GraphSize

BITS = 8
"""Bits of a byte."""


def graph_size(part: str, model: Any) -> GraphSize:
    """The numbers of weights and nodes of a graph, and the types of its outputs. No weight is read.

    The defaults of inputs are no weights.
    """
    parameters = sum(prod(value.shape) for value in _floats(model)) + sum(map(prod, quantized_sizes(model).values()))
    outputs = [(str(value.name), _type_text(value)) for value in model.graph.outputs]
    return GraphSize(part, int(parameters), sum(1 for _ in model.graph.all_nodes()), outputs)


def float_bytes(model: Any) -> int | None:
    """The bytes of the weights of a graph; None if some are quantized. No weight is read."""
    if quantized_sizes(model):
        return None
    return int(sum(prod(value.shape) * value.dtype.bitwidth // BITS for value in _floats(model)))


def _floats(model: Any) -> list[Any]:
    """The initializers with a floating-point type that are neither quantized nor the default of an input."""
    ports = set(model.graph.inputs)
    return [
        value
        for value in model.graph.initializers.values()
        if value not in ports and quantized_slot_of(value) is None and value.dtype and value.dtype.is_floating_point()
    ]


def _type_text(value: Any) -> str:
    """The type and the axes of a value: `float32[batch_size, 2]`; `_` is an axis without a name."""
    dtype = str(value.dtype.numpy()) if value.dtype else ""
    return f"{dtype}[{', '.join('_' if str(size) == 'None' else str(size) for size in value.shape or ())}]"
