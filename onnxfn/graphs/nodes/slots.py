"""Slots are parameters of a graph with a name and without values. The passes here make, merge and fill them."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.graphs.nodes.nodes import attribute, is_operator
from onnxfn.specs.errors import CaptureFailed
from onnxfn.weights.chunks import converted

SLOT = "onnxfn.slot"
"""The key of the slot in the `meta` of an initializer."""

IN_TURN = ".in_turn"
"""How the name of a weight ends whose halves alternate."""


@frozen
class Slot:
    """A parameter of the model that an initializer holds, and the order of its axes there; () is that of the model.

    `in_turn`: whether the rows of its two halves along the second axis alternate.
    """

    parameter: str
    perm: tuple[int, ...] = field(default=(), converter=tuple)
    in_turn: bool = False


def slot_of(value: Any) -> Slot | None:
    """The slot of a value; None if the value is not a slot."""
    return cast("Slot | None", value.meta.get(SLOT))


def to_slots(model: Any, parameter_name: Callable[[Any], str | None]) -> Any:
    """Replaces the parameters of the model by slots; `parameter_name` returns that of a tensor, or None.

    After: each parameter is one initializer without values, so the graph fits every checkpoint.
    """
    for value in model.graph.initializers.values():
        raw = getattr(value.const_value, "raw", None)
        name = parameter_name(raw) if raw is not None else None
        if name is not None:
            make_slot(value, Slot(name))
    return merge_slots(model)


def make_slot(value: Any, slot: Slot) -> None:
    """Makes a slot of an initializer: it keeps the shape and the dtype of its tensor, not the values."""
    value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
    value.const_value, value.meta[SLOT] = None, slot


def pretranspose(model: Any) -> Any:
    """Moves the transposition of parameters from the graph into their slots.

    Before: Transpose nodes read slots.
    After: a slot that only equal Transpose nodes read has its axes in their order, and the nodes are gone.
    """
    import onnx_ir

    for value in list(model.graph.initializers.values()):
        if slot_of(value) is None or value.is_graph_output():
            continue
        consumers = [node for node, _ in value.uses()]
        perm, *others = {_perm(node) for node in consumers} or {None}
        if perm is None or others:
            continue
        value.meta[SLOT] = evolve(value.meta[SLOT], perm=perm)
        value.shape = onnx_ir.Shape([value.shape[axis] for axis in perm])
        for node in consumers:
            node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
            node.graph.remove(node, safe=True)
    return model


def put_in_turn(model: Any) -> Any:
    """Lets experts read a slot whose halves alternate, where nodes put these in turn and nothing else reads the slot.

    Before: a Reshape, a Transpose and a Reshape are before the first matrix of each MoE.
    """
    from onnx_ir.passes import common

    experts = [each for each in model.graph.all_nodes() if each.op_type == "MoE"]
    for node in experts:
        value, operators = node.inputs[2], list[str]()
        while value.producer() is not None and len(value.uses()) == 1:
            operators.append(value.producer().op_type)
            value = value.producer().inputs[0]
        if slot_of(value) is not None and len(value.uses()) == 1 and operators == ["Reshape", "Transpose", "Reshape"]:
            value.meta[SLOT], value.name = evolve(value.meta[SLOT], in_turn=True), f"{value.name}{IN_TURN}"
            node.replace_input_with(2, value)
    return common.RemoveUnusedNodesPass()(model).model if experts else model


def merge_slots(model: Any) -> Any:
    """Makes one initializer of the slots of one parameter with the same order of its axes."""
    first: dict[Slot, Any] = {}
    for name, value in list(model.graph.initializers.items()):
        slot = slot_of(value)
        if slot is not None and first.setdefault(slot, value) is not value:
            value.replace_all_uses_with(first[slot])
            del model.graph.initializers[name]
    return model


def bind_weights(model: Any, tensors: Callable[[str], Any]) -> Any:
    """Binds the slots of a graph to tensors: `tensors` returns that of a parameter, of torch or of numpy.

    Before: slots have no values. After: they are views of the tensors, with their axes in the order of the slot.
    Nothing is copied. A tensor of another float dtype is converted when it is written. CaptureFailed if one has another
    shape than the graph reads, or numbers of another kind.
    """
    for value in model.graph.initializers.values():
        slot = slot_of(value)
        if slot is not None:
            view = float_view(slot_view(tensors(slot.parameter), slot, value.name), value.dtype)
            if tuple(view.shape) != tuple(value.shape) or view.dtype != value.dtype:
                raise CaptureFailed(
                    f"parameter {slot.parameter} is {view.dtype.name}{list(view.shape)}, "
                    f"but the graph reads {value.dtype.name}{list(value.shape)}"
                )
            value.const_value = view
    return model


def slot_view(tensor: Any, slot: Slot, name: str) -> Any:
    """The view of the tensor of a slot with its axes, and maybe its rows, in the order of the slot."""
    import onnx_ir

    view = parameter_view(tensor, slot.perm, name)
    if not slot.in_turn:
        return view
    halves = view.raw.reshape(len(view.raw), 2, -1, *view.shape[2:]).swapaxes(1, 2)  # a view: only an axis is split
    return onnx_ir.Tensor(halves, view.dtype, shape=view.shape, name=name)


def parameter_view(tensor: Any, perm: tuple[int, ...], name: str) -> Any:
    """The view of a tensor with its axes in the order of `perm`."""
    import onnx_ir

    if isinstance(tensor, np.ndarray):
        return onnx_ir.Tensor(tensor.transpose(perm) if perm else tensor, name=name)
    return onnx_ir.tensor_adapters.TorchTensor(tensor.permute(perm) if perm else tensor, name=name)


def float_view(view: Any, dtype: Any) -> Any:
    """The view, converted to a float dtype if it has another one."""
    return converted(view, dtype) if view.dtype.is_floating_point() and dtype.is_floating_point() else view


def _perm(node: Any) -> tuple[int, ...] | None:
    """The order in which a Transpose puts the axes of its input; None for other nodes and for outputs of the graph."""
    if not is_operator(node, "Transpose") or node.outputs[0].is_graph_output():
        return None
    return tuple(attribute(node, "perm", reversed(range(len(node.inputs[0].shape)))))
