"""The pass that repeats the layers of a graph: a trace of a few layers becomes the graph of all layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from onnxfn.graphs.layers.layer_periods import LayerPort, LayerPorts, TracedStack, layer_of, prove_periods, traced_stack
from onnxfn.graphs.layers.repeated_layers import LayerStack
from onnxfn.graphs.nodes.nodes import all_inputs, subgraphs
from onnxfn.graphs.nodes.slots import SLOT, Slot, slot_of

Names = Mapping[LayerPort, str]
"""`{port: name}` of the inputs and outputs of all layers."""


def repeat_layers(model: Any, stack: LayerStack, ports: LayerPorts, planned: LayerPorts) -> Any:
    """Repeats the layers of a stack until the graph has all of them.

    Before: the graph has the first layers of the stack, two periods of layers, and the last layers. Its parameters
    are slots.
    After: it has all layers of the stack. The second period is copied for each period that follows, and the last layers
    read the last copy. Copies read the parameters and the cache of their own layers.

    The pass first proves that the second period is the first one, shifted by a period. It compares them node by node:
    the operators and the inputs. An input is a value of the same period, of the period before or of outside both, or a
    parameter or the cache of the same layer.

    `ports` are the inputs and outputs of the traced layers, `planned` those of all layers. LayersDiffer if the periods
    differ: the message says where, and the graph is unchanged.
    """
    traced = traced_stack(model.graph, stack, ports)
    if traced is None:
        return model
    counterparts = prove_periods(traced, planned)
    copies = _repeated(model.graph, traced, counterparts, {port: name for name, port in planned.items()})
    nodes = [*traced.before, *traced.first, *traced.second, *copies, *traced.after]
    model.graph.remove(list(model.graph))
    model.graph.extend(nodes)
    return model


def _repeated(graph: Any, traced: TracedStack, counterparts: Mapping[Any, Any], names: Names) -> list[Any]:
    """The nodes of the periods after the second one; the nodes after the periods then read the last of them."""
    _shift_end(traced, names)
    latest = {value: value for node in traced.second for value in node.outputs}
    read = dict.fromkeys(value for node in traced.second for value in all_inputs(node))
    outer = [value for value in read if value not in latest]
    # The parameters and inputs of its layers that the second period reads: a copy reads those of its own layers.
    layers = {value: layer_of(value, traced.stack, traced.ports) for value in outer if value not in counterparts}
    layer_values = [value for value, layer in layers.items() if layer is not None and layer >= traced.stack.head]
    nodes: list[Any] = []
    for shift in traced.shifts:
        # The second period reads the first one; a copy of it reads the period before the copy.
        replacements = {value: latest[other] for value, other in counterparts.items()}
        replacements |= {value: _shifted_value(graph, traced, names, value, shift) for value in layer_values}
        nodes.extend(_copied_period(graph, traced, names, outer, replacements, shift))
        latest = {value: replacements[value] for value in latest}
    for node in traced.after:
        _replace_inputs(node, latest)
    return nodes


def _copied_period(
    graph: Any, traced: TracedStack, names: Names, outer: list[Any], replacements: dict[Any, Any], shift: int
) -> list[Any]:
    """Copies of the nodes of the second period, `shift` layers later; their outputs are added to `replacements`.

    `outer`: the values from outside that the nodes read.
    """
    import onnx_ir

    copy = onnx_ir.GraphView(outer, [], nodes=traced.second).clone()
    for value, copied in zip(outer, copy.inputs, strict=True):
        copied.replace_all_uses_with(replacements.get(value, value), replace_graph_outputs=True)
    copies = list(copy)
    copy.remove(copies)
    for node, new_node in zip(traced.second, copies, strict=True):
        for value, new_value in zip(node.outputs, new_node.outputs, strict=True):
            replacements[value] = new_value
            new_value.name = _shifted_name(traced, names, value, shift)
            if value.is_graph_output():
                graph.outputs.append(new_value)
    return copies


def _replace_inputs(node: Any, replacements: Mapping[Any, Any]) -> None:
    """Lets a node and its subgraphs read the replacement of each value that has one."""
    for index, value in enumerate(node.inputs):
        if value in replacements:
            node.replace_input_with(index, replacements[value])
    for graph in subgraphs(node):
        for inner_node in graph:
            _replace_inputs(inner_node, replacements)
        for index, value in enumerate(graph.outputs):
            if value in replacements:
                graph.outputs[index] = replacements[value]


def _shift_end(traced: TracedStack, names: Names) -> None:
    """Lets the nodes after the periods read the parameters and the cache of the last layers of the stack."""
    for value in dict.fromkeys(value for node in traced.after for value in (*all_inputs(node), *node.outputs)):
        is_port, slot = _is_port(traced, value), slot_of(value)
        layer = traced.ports[value.name].layer if is_port else layer_of(value, traced.stack, traced.ports)
        if layer is not None and layer >= traced.end:
            value.name = _shifted_name(traced, names, value, traced.added)
            if slot is not None:
                value.meta[SLOT] = _shifted_slot(traced.stack, slot, traced.added)


def _shifted_value(graph: Any, traced: TracedStack, names: Names, value: Any, layers: int) -> Any:
    """A new parameter or input of the graph: the same one `layers` layers later."""
    import onnx_ir

    shifted = onnx_ir.Value(name=_shifted_name(traced, names, value, layers), shape=value.shape, type=value.type)
    slot = slot_of(value)
    if slot is None:
        graph.inputs.append(shifted)
    else:
        shifted.meta[SLOT] = _shifted_slot(traced.stack, slot, layers)
        graph.initializers.add(shifted)
    return shifted


def _shifted_slot(stack: LayerStack, slot: Slot, layers: int) -> Slot:
    return evolve(slot, parameter=stack.shifted(slot.parameter, layers))


def _shifted_name(traced: TracedStack, names: Names, value: Any, layers: int) -> str:
    """The name of a value `layers` layers later: as planned, by its layer, or with the number of layers."""
    if not value.name:
        return ""  # an optional output that no node reads
    if _is_port(traced, value):
        return names[traced.ports[value.name].shifted(layers)]
    slot = slot_of(value)
    if slot is not None and slot.parameter in value.name:
        return str(value.name).replace(slot.parameter, traced.stack.shifted(slot.parameter, layers))
    return f"{value.name}.{layers}"


def _is_port(traced: TracedStack, value: Any) -> bool:
    """Whether a value is an input or an output of the graph that belongs to a layer."""
    return value.name in traced.ports and (value.is_graph_input() or value.is_graph_output())
