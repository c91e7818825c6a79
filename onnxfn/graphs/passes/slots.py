"""Passes between a graph and the parameters that it reads: slots, which know a parameter's name and not its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.specs.errors import CaptureFailed
from onnxfn.weights.chunks import concatenated_columns

SLOT = "onnxfn.slot"
"""Where an initializer's `meta` keeps its slot."""


@frozen
class Slot:
    """A parameter by the name that it has in the model, and the order of its axes where a graph turns it.

    Those that stand `beside` it, turned as it is, follow it along the last axis.
    """

    parameter: str
    perm: tuple[int, ...] = field(default=(), converter=tuple)
    packed_with: tuple[str, ...] = field(default=(), converter=tuple)


def slot_of(value: Any) -> Slot | None:
    """The slot that a value is, if it is one."""
    found: Slot | None = value.meta.get(SLOT)
    return found


def slot_parameters(known: Slot) -> tuple[str, ...]:
    """All parameters that a slot is made of."""
    return known.parameter, *known.packed_with


def to_slots(model: Any, names: Callable[[Any], str | None]) -> Any:
    """Before: initializers hold a model's tensors. After: parameters are slots, each there once, and have no values.

    `names` tells the parameter that a tensor is, if it is one: the same for tensors that look at the same memory in the
    same way. No later pass can then read a parameter, so the graph is right for other values too. What is no parameter
    (a table that the model computes for itself) is a constant of the graph.
    """
    first: dict[str, Any] = {}
    for initializer, value in list(model.graph.initializers.items()):
        raw = getattr(value.const_value, "raw", None)
        name = names(raw) if raw is not None else None
        if name is None:
            continue
        kept = first.setdefault(name, value)
        if kept is value:
            value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
            value.const_value, value.meta[SLOT] = None, Slot(name)
        else:
            value.replace_all_uses_with(kept)
            del model.graph.initializers[initializer]
    return model


def pretranspose(model: Any) -> Any:
    """Before: `Transpose` nodes turn slots. After: the slots that nothing reads as they are stand turned already.

    One that is also read as it stands (a tied embedding) keeps its node, since it would be stored twice.
    """
    for value in list(model.graph.initializers.values()):
        users = [node for node, _ in value.uses()]
        orders = [_order(node) for node in users]
        order = orders[0] if orders and orders.count(orders[0]) == len(orders) else None
        if slot_of(value) is None or value.is_graph_output() or order is None:
            continue
        _turn(value, order)
        for node in users:
            node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
            node.graph.remove(node, safe=True)
    return model


def merge_slots(model: Any) -> Any:
    """After: slots of one parameter that are turned alike are one initializer."""
    first: dict[Slot, Any] = {}
    for name, value in list(model.graph.initializers.items()):
        known = slot_of(value)
        kept = first.setdefault(known, value) if known else value
        if kept is not value:
            value.replace_all_uses_with(kept)
            del model.graph.initializers[name]
    return model


def bind_weights(model: Any, tensors: Callable[[str], Any]) -> Any:
    """Before: parameters are slots. After: each looks at the tensor of its parameter, turned and not copied.

    The tensors are torch's, or arrays of numpy. CaptureFailed when one has not the shape or the type that the graph
    reads.
    """
    for value in model.graph.initializers.values():
        known = slot_of(value)
        if known is not None:
            pieces = [_seen(tensors(one), known.perm, value.name) for one in slot_parameters(known)]
            value.const_value = _fitting(value, known, concatenated_columns(pieces) if known.packed_with else pieces[0])
    return model


def _seen(tensor: Any, turned: tuple[int, ...], name: str) -> Any:
    import onnx_ir

    if isinstance(tensor, np.ndarray):
        return onnx_ir.Tensor(tensor.transpose(turned) if turned else tensor, name=name)
    return onnx_ir.tensor_adapters.TorchTensor(tensor.permute(turned) if turned else tensor, name=name)


def _fitting(value: Any, known: Slot, seen: Any) -> Any:
    if tuple(seen.shape) != tuple(value.shape) or seen.dtype != value.dtype:
        raise CaptureFailed(
            f"{' + '.join(slot_parameters(known))} is {seen.dtype.name}{list(seen.shape)} where the graph reads "
            f"{value.dtype.name}{list(value.shape)}"
        )
    return seen


def _order(node: Any) -> tuple[int, ...] | None:
    """The order in which a node puts the axes of what it reads, if that is all that it does."""
    if node.op_type != "Transpose" or node.domain or node.outputs[0].is_graph_output():
        return None
    said = node.attributes.get("perm")
    return tuple(said.as_ints()) if said is not None else tuple(reversed(range(len(node.inputs[0].shape))))


def _turn(value: Any, order: tuple[int, ...]) -> None:
    import onnx_ir

    value.meta[SLOT] = evolve(value.meta[SLOT], perm=order)
    value.shape = onnx_ir.Shape([value.shape[axis] for axis in order])
