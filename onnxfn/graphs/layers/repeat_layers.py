"""The pass that repeats the layers of a graph: a trace of a few layers becomes the graph of all layers.

A stack of layers repeats after `stack.period` layers. A trace has the first layers, two whole periods, and the last
layers. If the second period is the first one, shifted by a period, all periods after them are the same, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.graphs.layers.repeated_layers import LayerStack
from onnxfn.graphs.nodes.nodes import all_inputs, attribute_graphs, module_path, node_name, nodes_inside_out, subgraphs
from onnxfn.graphs.nodes.slots import SLOT, Slot, slot_of
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import LayersDiffer

NO_LAYER = -1
"""The layer of nodes that depend on no layer."""


@frozen
class LayerPort:
    """An input or an output of the graph that is one side of the cache of a layer; `index` counts them from 1."""

    side: str
    layer: int
    index: int

    def shifted(self, layers: int) -> LayerPort:
        """The same port, `layers` layers later."""
        return evolve(self, layer=self.layer + layers)


LayerPorts = Mapping[str, LayerPort]
"""`{name: port}` of the inputs and outputs that belong to layers."""


@frozen(eq=False)
class TracedStack:
    """The ports of the traced layers, and the nodes that depend on one period, on the next, or on later layers."""

    stack: LayerStack
    ports: LayerPorts
    first: list[Any]
    second: list[Any]
    after: list[Any]

    @property
    def end(self) -> int:
        """The first layer after the second period."""
        return self.stack.head + 2 * self.stack.period

    @property
    def shifts(self) -> range:
        """For each added period, its distance from the second period, in layers."""
        return range(self.stack.period, self.added + 1, self.stack.period)

    @property
    def added(self) -> int:
        """The number of layers that were not traced."""
        return self.stack.layers - self.stack.traced_layers


Names = Mapping[LayerPort, str]
"""`{port: name}` of the inputs and outputs of all layers."""


def repeat_layers(model: Any, stack: LayerStack, ports: LayerPorts, planned: LayerPorts) -> Any:
    """Repeats the layers of a stack until the graph has all of them.

    Before: it has the first layers, two periods, and the last layers. Its parameters are slots.
    After: the second period is copied for each period that follows, and the last layers read the last copy. Copies read
    the parameters and the cache of their own layers.

    `ports` are the inputs and outputs of the traced layers, `planned` those of all. LayersDiffer says where the second
    period is not the first one, shifted: where operators or inputs of nodes differ. Then the graph is unchanged.
    """
    traced = traced_stack(model.graph, stack, ports)
    if traced is None:
        return model
    _repeat(model.graph, traced, prove_periods(traced, planned), {port: name for name, port in planned.items()})
    model.graph.sort()
    return model


def _repeat(graph: Any, traced: TracedStack, counterparts: Mapping[Any, Any], names: Names) -> None:
    """Adds the nodes of the periods after the second one; the nodes after the periods then read the last of them."""
    _shift_end(traced, names)
    latest = {value: value for node in traced.second for value in node.outputs}
    read = dict.fromkeys(value for node in traced.second for value in all_inputs(node))
    outer = [value for value in read if value not in latest]
    # The parameters and inputs of its layers that the second period reads: a copy reads those of its own layers.
    layers = {value: layer_of(value, traced.stack, traced.ports) for value in outer if value not in counterparts}
    layer_values = [value for value, layer in layers.items() if layer is not None and layer >= traced.stack.head]
    for shift in traced.shifts:
        # The second period reads the first one; a copy of it reads the period before the copy.
        replacements = {value: latest[other] for value, other in counterparts.items()}
        replacements |= {value: _shifted_value(graph, traced, names, value, shift) for value in layer_values}
        graph.extend(_copied_period(graph, traced, names, outer, replacements, shift))
        latest = {value: replacements[value] for value in latest}
    for node in traced.after:
        _replace_inputs(node, latest)


def _copied_period(
    graph: Any, traced: TracedStack, names: Names, outer: list[Any], replacements: dict[Any, Any], shift: int
) -> list[Any]:
    """Copies of the second period, which reads `outer`, `shift` layers later; adds their outputs to `replacements`."""
    import onnx_ir

    copy = onnx_ir.GraphView(outer, [], nodes=traced.second).clone()
    for value, copied in zip(outer, copy.inputs, strict=True):
        copied.replace_all_uses_with(replacements.get(value, value), replace_graph_outputs=True)
    copies = list(copy)
    copy.remove(copies)
    _shift_modules(traced.stack, copies, traced.stack.head + traced.stack.period, shift)
    for node, new_node in zip(traced.second, copies, strict=True):
        for value, new_value in zip(node.outputs, new_node.outputs, strict=True):
            replacements[value] = new_value
            new_value.name = _shifted_name(traced, names, value, shift)
            if value.is_graph_output():
                graph.outputs.append(new_value)
    return copies


def _shift_modules(stack: LayerStack, nodes: Sequence[Any], start: int, by: int) -> None:
    """Names nodes, and those inside them, after the module `by` layers later, if its layer is `start` or later."""
    for node in nodes_inside_out(nodes):
        parameter = f"{module_path(node)}."
        layer = stack.layer_index(parameter)
        if layer is not None and layer >= start:
            node.name = node_name(stack.shifted(parameter, by)[:-1], node.op_type)


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
    _shift_modules(traced.stack, traced.after, traced.end, traced.added)
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


def layer_ports(part: Part) -> LayerPorts:
    """The inputs and outputs of a part that belong to layers."""
    ports: dict[str, LayerPort] = {}
    for side, tensors in (("input", part.spec.inputs), ("output", part.spec.outputs)):
        counts: dict[int, int] = {}
        for tensor in tensors:
            if tensor.layer is not None:
                counts[tensor.layer] = counts.get(tensor.layer, 0) + 1
                ports[tensor.name] = LayerPort(side, tensor.layer, counts[tensor.layer])
    return ports


# The nodes, split by layer


def traced_stack(graph: Any, stack: LayerStack, ports: LayerPorts) -> TracedStack | None:
    """The nodes of a graph, split into periods of a stack; None if no node depends on the stack."""
    nodes = _nodes_by_layer(graph, stack, ports)
    last = max(nodes, default=NO_LAYER)
    if last == NO_LAYER:
        return None
    if last != stack.traced_layers - 1:
        problem = f"{stack.traced_layers} layers were traced, but the graph depends only on layers up to {last}"
        raise LayersDiffer(f"{stack.path}: {problem}")
    starts = (stack.head + period * stack.period for period in range(3))
    pieces = (
        [node for layer in sorted(nodes) if start <= layer < stop for node in nodes[layer]]
        for start, stop in pairwise((*starts, stack.traced_layers))
    )
    return TracedStack(stack, ports, *pieces)


def _nodes_by_layer(graph: Any, stack: LayerStack, ports: LayerPorts) -> dict[int, list[Any]]:
    """`{layer: nodes}`: each node under the last layer that it depends on, in the order of the graph."""
    layers: dict[Any, int] = {}
    nodes: dict[int, list[Any]] = {}
    for node in graph:
        values = list(all_inputs(node))
        for value in values:
            if value not in layers:
                layer = layer_of(value, stack, ports)
                layers[value] = NO_LAYER if layer is None else layer
        last = max((layers[value] for value in values), default=NO_LAYER)
        layers.update(dict.fromkeys(node.outputs, last))
        nodes.setdefault(last, []).append(node)
    return nodes


def layer_of(value: Any, stack: LayerStack, ports: LayerPorts) -> int | None:
    """The layer that a parameter or an input of the graph belongs to; None for all other values."""
    slot = slot_of(value)
    if slot is not None:
        return stack.layer_index(slot.parameter)
    return ports[value.name].layer if value.is_graph_input() and value.name in ports else None


# The proof


def prove_periods(traced: TracedStack, planned: LayerPorts) -> dict[Any, Any]:
    """Proves that the periods are equal: `{value of the first: value of the second}`; LayersDiffer if they are not."""
    _check_ports(traced, planned)
    path, first, second = traced.stack.path, traced.first, traced.second
    if len(first) != len(second):
        raise LayersDiffer(f"{path}: one period of layers has {len(first)} nodes, the next one has {len(second)}")
    own = {value for node in first for value in node.outputs}
    counterparts: dict[Any, Any] = {}
    for node, other in zip(first, second, strict=True):
        _check_node(traced, node, other, own, counterparts)
        counterparts.update(zip(node.outputs, other.outputs, strict=True))
    for node in traced.after:
        value = next((value for value in all_inputs(node) if value in own), None)
        if value is not None:
            raise LayersDiffer(f"{path}: {_label(node)} after the last period reads {value.name} of an earlier period")
    return counterparts


def _check_ports(traced: TracedStack, planned: LayerPorts) -> None:
    """Checks that the ports of the plan are those of the traced layers, repeated."""
    start = traced.stack.head + traced.stack.period
    expected = set()
    for port in traced.ports.values():
        expected.add(port.shifted(traced.added if port.layer >= traced.end else 0))
        if start <= port.layer < traced.end:
            expected.update(port.shifted(shift) for shift in traced.shifts)
    if expected != set(planned.values()):
        problem = "the plan does not have the same inputs and outputs for each period of layers"
        raise LayersDiffer(f"{traced.stack.path}: {problem}")


def _check_node(traced: TracedStack, node: Any, other: Any, own: set[Any], counterparts: Mapping[Any, Any]) -> None:
    """Checks that a node of the second period is the counterpart of a node of the first."""
    path = traced.stack.path
    if not same_operation(node, other):
        raise LayersDiffer(f"{path}: {_label(node)} in one period of layers is {_label(other)} in the next one")
    for value, other_value in zip(all_inputs(node), all_inputs(other), strict=True):
        if not _corresponds(traced, value, other_value, own, counterparts):
            raise LayersDiffer(
                f"{path}: {_label(node)} reads {value.name} in one period of layers and {other_value.name} in the next "
                "one, which does not correspond to it"
            )
    for value, other_value in zip(node.outputs, other.outputs, strict=True):
        is_output = value.is_graph_output(), other_value.is_graph_output()
        if any(is_output) and not (all(is_output) and _same_port(traced, value, other_value)):
            raise LayersDiffer(
                f"{path}: {value.name} of one period of layers and {other_value.name} of the next one are not the same "
                "output of their layers"
            )


def _corresponds(traced: TracedStack, value: Any, other: Any, own: set[Any], counterparts: Mapping[Any, Any]) -> bool:
    """Whether an input of a node of the second period is the shifted input of the first period."""
    if value in own:
        return counterparts.get(value) is other
    if other in own:
        return True  # the second period reads the first, which reads what is before the periods
    layer = layer_of(value, traced.stack, traced.ports)
    if layer is None or layer < traced.stack.head:
        constants = value.const_value, other.const_value
        return value is other or (None not in constants and _same_tensor(*constants))
    return _same_parameter(traced.stack, value, other) or _same_port(traced, value, other)


def _same_parameter(stack: LayerStack, value: Any, other: Any) -> bool:
    """Whether two values are slots of the same parameter of layers that are a period apart."""
    slot, other_slot = slot_of(value), slot_of(other)
    if slot is None or other_slot is None:
        return False
    shifted = evolve(slot, parameter=stack.shifted(slot.parameter, stack.period))
    return shifted == other_slot and value.shape == other.shape and value.dtype == other.dtype


def _same_port(traced: TracedStack, value: Any, other: Any) -> bool:
    """Whether two values are the same input or output of layers that are a period apart."""
    port, other_port = traced.ports.get(value.name), traced.ports.get(other.name)
    return port is not None and other_port is not None and port.shifted(traced.stack.period) == other_port


def _label(node: Any) -> str:
    return f"{node.op_type} of {module_path(node) or 'the model itself'}"


def same_operation(node: Any, other: Any) -> bool:
    """Whether two nodes compute the same from their inputs: operator, attributes, subgraphs and number of inputs."""
    if (node.domain, node.op_type, node.overload) != (other.domain, other.op_type, other.overload):
        return False
    if [value is None for value in node.inputs] != [value is None for value in other.inputs]:
        return False
    if len(node.outputs) != len(other.outputs) or node.attributes.keys() != other.attributes.keys():
        return False
    same = all(_same_attribute(attr, other.attributes[name]) for name, attr in node.attributes.items())
    return same and len(list(all_inputs(node))) == len(list(all_inputs(other)))


def _same_tensor(tensor: Any, other: Any) -> bool:
    """Whether two constants have the same dtype and the same elements."""
    return tensor.dtype == other.dtype and bool(np.array_equal(tensor.numpy(), other.numpy()))


def _same_attribute(attr: Any, other: Any) -> bool:
    if attr.type != other.type:
        return False
    if attr.type.name == "TENSOR":
        return _same_tensor(attr.value, other.value)
    graphs, other_graphs = attribute_graphs(attr), attribute_graphs(other)
    if graphs:
        return len(graphs) == len(other_graphs) and all(map(_same_graph, graphs, other_graphs))
    return bool(attr.value == other.value)


def _same_graph(graph: Any, other: Any) -> bool:
    """Whether two subgraphs compute the same from the values of the outer graph, which the caller compares."""
    counts, other_counts = ((len(each.inputs), len(each), len(each.outputs)) for each in (graph, other))
    if graph.initializers or other.initializers or counts != other_counts:
        return False
    counterparts = dict(zip(graph.inputs, other.inputs, strict=True))

    def correspond(values: Sequence[Any], others: Sequence[Any]) -> bool:
        return all(counterparts.get(each, its) is its for each, its in zip(values, others, strict=True))

    for node, other_node in zip(graph, other, strict=True):
        if not same_operation(node, other_node) or not correspond(node.inputs, other_node.inputs):
            return False
        counterparts.update(zip(node.outputs, other_node.outputs, strict=True))
    return correspond(graph.outputs, other.outputs)
