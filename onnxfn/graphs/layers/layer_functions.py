"""The pass that writes layers that are equal as calls of one function of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from toolz import groupby

from onnxfn.graphs.layers.repeat_layers import same_operation
from onnxfn.graphs.nodes.nodes import all_inputs, module_path
from onnxfn.weights.onnx_files import LAYERS

_LAYER = re.compile(r"(?:.*?\.)??\d+(?=\.|$)")
"""The shortest path of a module that ends in a number: `encoder.layer.3` of `encoder.layer.3.output.dense`."""


@frozen(eq=False)
class Layer:
    """The nodes of a layer, and the values of theirs that others read."""

    path: str
    nodes: list[Any]
    outputs: list[Any]

    @property
    def inputs(self) -> list[Any]:
        """The outer values that the nodes read."""
        own = {value for node in self.nodes for value in node.outputs}
        return [*dict.fromkeys(value for node in self.nodes for value in all_inputs(node) if value not in own)]


def with_layer_functions(model: Any) -> Any:
    """A copy of a finished graph, in which each layer that equals another one is a call of a function.

    Before: nodes are named after their modules. A layer is the nodes of the outermost module of a list.
    After: one node, named after the module, stands for them. Its inputs are the weights, the constants and the cache of
    the layer, and what the layer reads of others. Values that a layer computes for others without a weight of its own,
    such as a mask, stay outside. Inside layers that equal no other one, the layers of the next list are looked at.
    """
    copy = model.clone()
    names: dict[str, int] = {}
    inside = {node: module_path(node) for node in copy.graph}
    starts = dict.fromkeys(inside, 0)
    while starts:
        matches = {node: _LAYER.match(inside[node], start) for node, start in starts.items()}
        starts = {node: match.end() + 1 for node, match in matches.items() if match is not None}
        paths = groupby(lambda node: inside[node][: starts[node] - 1], starts)  # noqa: B023 - is called at once
        layers = _layers(copy.graph, paths)
        for equal in _equal_layers(layers):
            name = equal[0].path.rpartition(".")[0] or "layers"
            names[name] = names.get(name, -1) + 1
            function = _function(copy, f"{name}_{names[name]}" if names[name] else name, equal[0])
            for layer in equal:
                _call(copy.graph, function, layer)
                starts = {node: start for node, start in starts.items() if node.graph is not None}
    copy.graph.sort()
    return copy


def _layers(graph: Any, paths: Mapping[str, Sequence[Any]]) -> list[Layer]:
    """The layers with these nodes that a single node can stand for: no other node is between two of theirs."""
    reads = {node: [*dict.fromkeys(all_inputs(node))] for node in graph}
    readers: dict[Any, list[Any]] = {}
    for node, values in reads.items():
        for value in values:
            readers.setdefault(value, []).append(node)
    layers = []
    for path, nodes in paths.items():
        own = _own_nodes(path, nodes, reads, readers)
        outputs = [value for node in own for value in node.outputs if _is_read(value, own, readers)]
        if len({*map(module_path, own)}) > 1 and not _is_between(own, reads, {*outputs}):
            layers.append(Layer(path, list(own), outputs))
    return layers


def _is_read(value: Any, inside: Mapping[Any, None], readers: Mapping[Any, Sequence[Any]]) -> bool:
    """Whether a value is an output of the graph, or a node outside reads it."""
    return value.is_graph_output() or any(reader not in inside for reader in readers.get(value, ()))


def _own_nodes(
    path: str, nodes: Sequence[Any], reads: Mapping[Any, Any], readers: Mapping[Any, Any]
) -> dict[Any, None]:
    """The nodes of a layer, without those that compute for others what depends on no weight of the layer."""
    weighted: set[Any] = set()
    for node in nodes:
        weights = (each for each in reads[node] if each.is_initializer() and each.name.startswith(f"{path}."))
        if any(weights) or not weighted.isdisjoint(reads[node]):
            weighted.update(node.outputs)
    own: dict[Any, None] = dict.fromkeys(nodes)
    for node in reversed(nodes):
        if weighted.isdisjoint(node.outputs) and any(_is_read(value, own, readers) for value in node.outputs):
            del own[node]
    return own


def _is_between(inside: Mapping[Any, None], reads: Mapping[Any, Any], outputs: set[Any]) -> bool:
    """Whether a node outside depends on an output of a layer, and a node of the layer on that node."""
    after = set(outputs)
    for node, values in reads.items():
        if node in inside and any(value in after and value not in outputs for value in values):
            return True
        if node not in inside and not after.isdisjoint(values):
            after.update(node.outputs)
    return False


def _equal_layers(layers: Sequence[Layer]) -> list[list[Layer]]:
    """The layers that compute the same from their inputs, together; without those that equal no other one."""
    kinds: list[list[Layer]] = []
    for alike in groupby(_outline, layers).values():
        own: list[list[Layer]] = []
        for layer in alike:
            equal = next((kind for kind in own if _same_nodes(kind[0], layer)), None)
            own.append([layer]) if equal is None else equal.append(layer)
        kinds.extend(kind for kind in own if len(kind) > 1)
    return kinds


def _outline(layer: Layer) -> tuple[Any, ...]:
    """The operators of a layer, and what they read and output, by numbers of values."""
    values = (*layer.inputs, *(value for node in layer.nodes for value in node.outputs))
    numbers = {value: number for number, value in enumerate(values)}
    nodes = ((node.op_identifier(), tuple(map(numbers.__getitem__, all_inputs(node)))) for node in layer.nodes)
    return (*nodes, tuple(map(numbers.__getitem__, layer.outputs)))


def _same_nodes(layer: Layer, other: Layer) -> bool:
    return all(same_operation(*pair) for pair in zip(layer.nodes, other.nodes, strict=True))


def _function(model: Any, name: str, layer: Layer) -> Any:
    """The function of a layer, added to a model. Its names are those of the layer, without the path of the layer."""
    import onnx_ir

    graph = onnx_ir.GraphView(layer.inputs, layer.outputs, nodes=layer.nodes).clone()
    domains = {"", *(node.domain for node in graph.all_nodes())}
    graph.opset_imports.update({each: version for each, version in model.opset_imports.items() if each in domains})
    for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
        value.name = (value.name or "").removeprefix(f"{layer.path}.")
        value.shape = value.type = value.const_value = None
    for node in graph:
        node.name = node.name[len(layer.path) + 1 :]
    function = onnx_ir.Function(LAYERS, name, graph=graph, attributes=[])
    model.functions[function.identifier()] = function
    model.opset_imports[LAYERS] = 1
    return function


def _call(graph: Any, function: Any, layer: Layer) -> None:
    """Puts a call of a function in place of the nodes of a layer."""
    import onnx_ir

    call = onnx_ir.node(function.name, layer.inputs, domain=LAYERS, num_outputs=len(layer.outputs), name=layer.path)
    graph.append(call)
    for old, new in zip(layer.outputs, call.outputs, strict=True):
        name, old.name = old.name, None
        new.name, new.shape, new.type = name, old.shape, old.type
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(layer.nodes, safe=True)
