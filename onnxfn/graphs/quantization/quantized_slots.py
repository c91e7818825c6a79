"""Slots of weights that are quantized, and the bytes of a graph with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, cast

from attrs import frozen

from onnxfn.graphs.nodes.slots import Slot, float_view, slot_view
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.quantization import INTEGERS, STATIC, WeightRule
from onnxfn.specs.results.printing import OPTIONAL
from onnxfn.specs.stored.reports import GraphSize
from onnxfn.weights import quantized
from onnxfn.weights.calibrated import InputErrors

QUANTIZED = "onnxfn.quantized"
"""The key of the `QuantizedSlot` in the `meta` of an initializer."""


@frozen
class QuantizedSlot:
    """The codes, the scales or the zero points of a weight, by its `role`.

    Slot and shape have the axes in the order of the rule: `[rows, columns]` for blocks, of the operator for INTEGERS.
    """

    name: str
    slot: Slot
    rule: WeightRule
    role: quantized.Role
    shape: tuple[int, ...]


def quantized_slot_of(value: Any) -> QuantizedSlot | None:
    """The quantized slot of a value; None if it has none."""
    return cast("QuantizedSlot | None", value.meta.get(QUANTIZED))


def add_quantized_slots(graph: Any, value: Any, slot: Slot, rule: WeightRule, shape: tuple[int, ...]) -> dict[str, Any]:
    """Adds the initializers that hold a quantized weight to a graph, without values; returns them by their roles."""
    import onnx_ir

    initializers: dict[str, Any] = {}
    # Tools of ONNX Runtime look for these endings of the names of a weight in QDQ form.
    endings = {"codes": "_quantized", "scales": "_scale", "zero_points": "_zero_point"}
    for role in quantized.roles(rule):
        dtype, sizes = _dtype(rule, role, value.dtype), quantized.quantized_shape(rule, role, shape)
        ending = endings[role] if rule.kind == STATIC else f".{role}"
        new = onnx_ir.val(f"{value.name}{ending}", dtype, sizes)
        new.meta[QUANTIZED] = QuantizedSlot(str(value.name), slot, rule, role, shape)
        graph.initializers.add(new)
        initializers[role] = new
    return initializers


def _dtype(rule: WeightRule, role: quantized.Role, dtype: Any) -> Any:
    """The dtype of an initializer of a quantized weight."""
    from onnx_ir import DataType

    if role == "scales":
        return DataType.FLOAT16 if quantized.has_half_scales(rule) else dtype
    return DataType.INT8 if quantized.has_signs(rule) else DataType.UINT8


def bind_quantized_weights(
    model: Any, tensors: Callable[[str], Any], errors_of: Callable[[Any, int], InputErrors | None] = lambda *_: None
) -> Any:
    """Binds the quantized slots of a graph to tensors: `tensors` returns that of a parameter, of torch or of numpy.

    Before: slots have no values. After: their values are computed when they are written. `errors_of`: what the
    calibrated codes of a matrix of a tensor follow from. CaptureFailed if a tensor has another shape than the graph.
    """
    weights: dict[str, Callable[[quantized.Role, Any, Sequence[int]], Any]] = {}
    for value in model.graph.initializers.values():
        slot = quantized_slot_of(value)
        if slot is not None:
            if slot.name not in weights:
                weights[slot.name] = quantized.quantized(_weight(slot, tensors, errors_of))
            value.const_value = weights[slot.name](slot.role, value.dtype, tuple(value.shape))
            value.const_value.name = value.name
    return model


def _weight(
    slot: QuantizedSlot, tensors: Callable[[str], Any], errors_of: Callable[..., Any]
) -> quantized.QuantizedWeight:
    """The weight of a quantized slot."""
    import onnx_ir

    tensor = tensors(slot.slot.parameter)
    view = slot_view(tensor, slot.slot, slot.name)
    if tuple(view.shape) != slot.shape:
        raise CaptureFailed(f"parameter {slot.name} is {list(view.shape)}, but the graph reads {list(slot.shape)}")
    if slot.rule.kind in INTEGERS:
        view = float_view(view, onnx_ir.DataType.FLOAT)
    if not slot.rule.calibrated or (len(slot.shape) != quantized.MATRIX_RANK and slot.slot.perm):
        return quantized.QuantizedWeight(slot.name, view, slot.rule)
    return quantized.QuantizedWeight(slot.name, view, slot.rule, partial(errors_of, tensor))


def quantized_sizes(model: Any) -> Mapping[str, tuple[int, ...]]:
    """From the name of each quantized weight of a graph to its shape."""
    slots = (quantized_slot_of(value) for value in model.graph.initializers.values())
    return {slot.name: slot.shape for slot in slots if slot is not None}


def graph_size(part: str, model: Any, size: int) -> GraphSize:
    """The numbers of weights and nodes of a graph, and its inputs and outputs; defaults of inputs are no weights."""
    parameters = sum(prod(value.shape) for value in _floats(model)) + sum(map(prod, quantized_sizes(model).values()))
    outputs, inputs = ([(v.name, _type_text(v)) for v in of] for of in (model.graph.outputs, model.graph.inputs))
    return GraphSize(part, int(parameters), sum(1 for _ in model.graph.all_nodes()), outputs, inputs, size)


def weight_bytes(model: Any) -> int:
    """The bytes of the weights of a graph. No weight is read."""
    slots = [value for value in model.graph.initializers.values() if quantized_slot_of(value) is not None]
    return int(sum(prod(value.shape) * value.dtype.bitwidth // 8 for value in (*_floats(model), *slots)))


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
    dtype, optional = str(value.dtype.numpy()) if value.dtype else "", OPTIONAL if value.is_initializer() else ""
    return f"{dtype}[{', '.join('_' if str(size) == 'None' else str(size) for size in value.shape or ())}]{optional}"
