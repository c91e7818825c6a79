"""The pass that quantizes activations with scales that are known before the graph runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.graphs.nodes.nodes import constant, insert_value, nodes_around, producer, shape_of, sole_consumer
from onnxfn.graphs.passes.canonical import number_nodes
from onnxfn.graphs.quantization.quantized_slots import QuantizedSlot, quantized_slot_of
from onnxfn.specs.quantization import STATIC

SAME_SCALE = ("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Pad")
"""The operators that choose or order elements, or add zeros: their kernels of integers have a single scale."""


@frozen(eq=False)
class Activation:
    """A value that is quantized. `signed`: whether its integers are. `reads`: the nodes that get them, and where."""

    value: Any
    signed: bool
    reads: set[tuple[Any, int]] = field(factory=set)


def static_activations(model: Any) -> dict[str, Activation]:
    """The values that are quantized, by their names.

    These are what static operators read, and what convolutions return, behind an activation. An output of the graph
    stays in floats. All readers of a value next to a convolution get integers: kernels of integers follow each other.
    """
    activations: dict[str, Activation] = {}
    for node in model.graph:
        slot = _static_slot(node)
        if slot is None:
            continue
        values = {node.inputs[0]: [(node, 0)]}
        if node.op_type == "Conv":
            # A kernel of integers computes these with the convolution before them.
            output = (sole_consumer(node.outputs[0], "Relu", "Clip") or node).outputs[0]
            both = [node.inputs[0], *([] if output.is_graph_output() else [output])]
            values = {value: [(use.node, use.idx) for use in value.uses()] for value in both}
        for value, reads in values.items():
            activations.setdefault(value.name, Activation(value, slot.rule.signed)).reads.update(reads)
    return activations


def _static_slot(node: Any) -> QuantizedSlot | None:
    """The slot of the static weight that a node reads; None for another node."""
    codes = producer(node.inputs[1], "DequantizeLinear") if len(node.inputs) > 1 else None
    slot = None if codes is None else quantized_slot_of(codes.inputs[0])
    return slot if slot is not None and slot.rule.kind == STATIC else None


def unquantized_nodes(model: Any) -> list[str]:
    """The nodes of a graph in whose subgraphs static weights are read: the activations there stay floats."""
    return nodes_around(model.graph, lambda node: _static_slot(node) is not None)


def quantize_activations(model: Any, ranges: Mapping[str, tuple[float, float]]) -> Any:
    """Puts a QuantizeLinear and a DequantizeLinear after each of the `static_activations`.

    Before: a graph whose static weights are DequantizeLinear of codes. `ranges`: the ends of each value; none is zeros.
    After: each static operator reads DequantizeLinear alone, and its kernels can compute with integers.
    """
    activations = static_activations(model)
    for each in activations.values():
        source = each.value
        while (node := producer(source, *SAME_SCALE)) and node.inputs[0].name in activations:
            source = node.inputs[0]
        steps = _steps(*ranges.get(source.name, (0.0, 0.0)), signed=each.signed)
        floats = _in_integers(model.graph, each.value, *steps)
        for reader, index in each.reads:
            reader.replace_input_with(index, floats)
    return number_nodes(model)


def _steps(low: float, high: float, *, signed: bool) -> tuple[Any, Any]:
    """The scale and the zero point of integers of 8 bits for 0 and the numbers between two.

    >>> [each.tolist() for each in _steps(-1.0, 1.55, signed=False)]
    [0.009999999776482582, 100]
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max(-low, high) / 127 if signed else (high - low) / 255
    scale = scale if scale >= np.finfo(np.float32).tiny else 1.0
    return np.array(scale, np.float32), np.array(0 if signed else round(-low / scale), np.int8 if signed else np.uint8)


def _in_integers(graph: Any, value: Any, *steps: Any) -> Any:
    """The floats that the integers of a value stand for, computed right after it."""
    from onnx_ir import DataType

    before = graph[0 if value.producer() is None else graph.index(value.producer()) + 1]
    parameters = [constant(graph, each) for each in steps]
    integers = DataType.from_numpy(steps[1].dtype)
    codes = insert_value(before, "QuantizeLinear", [value, *parameters], integers, shape_of(value))
    floats = insert_value(before, "DequantizeLinear", [codes, *parameters], value, shape_of(value))
    for each in (codes, floats):  # tools of ONNX Runtime look for these names
        each.name = f"{value.name}_{each.producer().op_type}_Output"
    return floats
