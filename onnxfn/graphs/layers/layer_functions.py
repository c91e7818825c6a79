"""The pass that writes layers that are equal as calls of one function of the file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir
from attrs import frozen
from toolz import groupby

from onnxfn.graphs.layers.repeat_layers import same_operation
from onnxfn.graphs.nodes.nodes import all_inputs, module_path
from onnxfn.weights.onnx_files import LAYERS

_LAYER = re.compile(r"(?:.*?\.)??\d+(?=\.|$)")
"""The shortest path of a module that ends in a number: `encoder.layer.3` of `encoder.layer.3.output.dense`."""

Reads = Mapping[Any, Sequence[Any]]
"""The values that each node of a graph reads, in the order of the nodes; or the nodes that read each value."""


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
    After: one node, named after the module, stands for them. What a layer computes for others without a weight, such as
    a mask, stays outside. Where layers differ, those of the lists inside them are compared.
    """
    copy = model.clone()
    names: dict[str, int] = {}
    ends = dict.fromkeys(copy.graph, -1)
    while ends:
        matches = {node: _LAYER.match(module_path(node), end + 1) for node, end in ends.items()}
        ends = {node: match.end() for node, match in matches.items() if match is not None}
        paths = groupby(lambda node, ends=ends: module_path(node)[: ends[node]], ends)
        for first, *others in _equal_layers(_layers(copy.graph, paths)):
            name = first.path.rpartition(".")[0] or "layers"
            number = names[name] = names.get(name, -1) + 1
            function = _add_function(copy, f"{name}_{number}" if number else name, first)
            for layer in (first, *others):
                _call(copy.graph, function, layer)
        ends = {node: end for node, end in ends.items() if node.graph is not None}
    copy.graph.sort()
    return copy


def _layers(graph: Any, paths: Mapping[str, Sequence[Any]]) -> list[Layer]:
    """The layers with these nodes that a single node can stand for: no other node is between two of theirs."""
    reads = {node: [*all_inputs(node)] for node in graph}
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


def _is_read(value: Any, inside: Mapping[Any, None], readers: Reads) -> bool:
    """Whether a value is an output of the graph, or a node outside reads it."""
    return value.is_graph_output() or any(reader not in inside for reader in readers.get(value, ()))


def _own_nodes(path: str, nodes: Sequence[Any], reads: Reads, readers: Reads) -> dict[Any, None]:
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


def _is_between(inside: Mapping[Any, None], reads: Reads, outputs: set[Any]) -> bool:
    """Whether a node outside depends on an output of a layer, and a node of the layer on that node."""
    after = set[Any]()  # values of nodes outside
    for node, values in reads.items():
        if node in inside and not after.isdisjoint(values):
            return True
        if node not in inside and not (after.isdisjoint(values) and outputs.isdisjoint(values)):
            after.update(node.outputs)
    return False


def _equal_layers(layers: Sequence[Layer]) -> list[list[Layer]]:
    """The layers that compute the same from their inputs, together; without those that equal no other one."""
    kinds: list[list[Layer]] = []
    outlines = [*map(_outline, layers)]
    for layer, outline in zip(layers, outlines, strict=True):
        alike = (kind for kind in kinds if outlines[layers.index(kind[0])] == outline)
        equal = next((kind for kind in alike if all(map(same_operation, kind[0].nodes, layer.nodes))), None)
        kinds.append([layer]) if equal is None else equal.append(layer)
    return [kind for kind in kinds if len(kind) > 1]


def _outline(layer: Layer) -> tuple[Any, ...]:
    """The operators of a layer, and what they read and output, by numbers of values."""
    values = (*layer.inputs, *(value for node in layer.nodes for value in node.outputs))
    numbers = {value: number for number, value in enumerate(values)}
    nodes = ((node.op_identifier(), *map(numbers.__getitem__, all_inputs(node))) for node in layer.nodes)
    return (*nodes, *map(numbers.__getitem__, layer.outputs))


def _add_function(model: Any, name: str, layer: Layer) -> Any:
    """Adds the function of a layer to a model. Its names are those of the layer, without the path of the layer."""
    graph = onnx_ir.GraphView(layer.inputs, layer.outputs, nodes=layer.nodes).clone()
    domains = {"", *(node.domain for node in graph.all_nodes())}
    graph.opset_imports.update({each: version for each, version in model.opset_imports.items() if each in domains})
    for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
        value.name = (value.name or "").removeprefix(f"{layer.path}.")
        value.shape = value.type = value.const_value = None
    for node in graph.all_nodes():
        node.name = node.name.removeprefix(layer.path).lstrip("./")
    function = onnx_ir.Function(LAYERS, name, graph=graph, attributes=[])
    model.functions[function.identifier()] = function
    model.opset_imports[LAYERS] = 1
    return function


def _call(graph: Any, function: Any, layer: Layer) -> None:
    """Puts a call of a function in place of the nodes of a layer."""
    call = onnx_ir.node(function.name, layer.inputs, domain=LAYERS, num_outputs=len(layer.outputs), name=layer.path)
    graph.append(call)
    for old, new in zip(layer.outputs, call.outputs, strict=True):
        new.shape, new.type, name, old.name = old.shape, old.type, old.name, None
        new.name = name
        old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(layer.nodes, safe=True)
