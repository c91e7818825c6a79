"""Equal layers of a written file, and its graph without all but one of them.

Two layers are equal if their nodes are the same, one by one: the operators, the attributes, the constants, what they
read from outside, and the names and shapes of their weights. Only the elements of the weights differ. What a graph
computes wrongly in one of them, it computes wrongly in all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from onnxfn.check.layer_calls import LayerChain
from onnxfn.check.sections.cut import Section, graph_sections
from onnxfn.check.sections.layer_chains import fits_shapes
from onnxfn.check.sections.runs import WrittenGraph
from onnxfn.check.sections.vertices import read_names
from onnxfn.graphs.passes.merging import PREFIX
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.reports import CheckFailed


@frozen(eq=False)
class FewerLayers:
    """A file without layers that equal a later one.

    Attributes:
        left_out: From the path of each layer that is left out to the items of the tuple that it returns in PyTorch.
        layers: The number of the layers of all chains, those that are left out included.
        content: The bytes of the ONNX model, with references to the weights of the file.
    """

    left_out: Mapping[str, int]
    layers: int
    content: bytes = field(repr=False)


@frozen(eq=False)
class _Layer:
    """A layer of a graph: its path, the hidden states before and after it, and the indices of the nodes between."""

    path: str
    before: str
    after: str
    nodes: tuple[int, ...]


def fewer_layers(
    written: WrittenGraph, chains: Iterable[LayerChain], parameters: Iterable[str], sizes: Mapping[str, int]
) -> FewerLayers | None:
    """The file without layers that equal a later one of their chain; None if none can be left out.

    Args:
        written: The file.
        chains: The chains of layers of the model, an outer one before those in its layers.
        parameters: The names of all parameters and buffers of the model.
        sizes: The sizes of the symbols in the run that the shapes of the chains are of.
    """
    left_out: dict[str, int] = {}
    dropped: list[_Layer] = []
    names, count = frozenset(parameters), 0
    for chain in chains:
        if any(chain.paths[0].startswith(f"{path}.") for path in left_out):
            continue
        layers = _layers(written, chain, names, sizes)
        items = dict(zip(chain.paths, chain.returned, strict=True))
        for layer in _with_later_equal(written, layers, names):
            number = items[layer.path]
            if number is not None and not _is_read_inside(written, layer):
                left_out[layer.path] = number
                dropped.append(layer)
        count += len(layers)
    return FewerLayers(left_out, count, _without(written, dropped)) if left_out else None


def _layers(
    written: WrittenGraph, chain: LayerChain, parameters: Iterable[str], sizes: Mapping[str, int]
) -> list[_Layer]:
    """The layers of a chain in a graph; none if they are no chain there."""
    graph = written.model.graph
    fits = fits_shapes(graph, chain.shapes, sizes)
    try:
        cut = graph_sections(graph, chain.paths, parameters, (), fits)
    except (InvalidSpec, CheckFailed):
        return []
    sections = {section.name: section for section in cut.sections}
    triples = zip(chain.paths, cut.hidden, cut.hidden[1:], strict=False)
    return [
        _Layer(path, before, after, _nodes_between(written, sections[path], after))
        for path, before, after in triples
        if path in sections
    ]


def _nodes_between(written: WrittenGraph, section: Section, after: str) -> tuple[int, ...]:
    """The nodes of a section that the hidden states after it are computed with."""
    needed, nodes = {after}, list[int]()
    for index in reversed(section.nodes):
        node = written.model.graph.node[index]
        if not needed.isdisjoint(node.output):
            nodes.append(index)
            needed.update(read_names(node))
    return tuple(reversed(nodes))


def _is_read_inside(written: WrittenGraph, layer: _Layer) -> bool:
    """Whether something else than the layer reads a value inside it: then the graph is not right without the layer."""
    nodes, own = written.model.graph.node, {*layer.nodes}
    inside = {name for index in layer.nodes for name in nodes[index].output} - {layer.after}
    outside = (name for index, node in enumerate(nodes) if index not in own for name in read_names(node))
    return not inside.isdisjoint((*outside, *(output.name for output in written.model.graph.output)))


def _with_later_equal(written: WrittenGraph, layers: Sequence[_Layer], parameters: Container[str]) -> Iterator[_Layer]:
    """The layers that equal a later one."""
    kinds = [_kind(written, layer, parameters) for layer in layers]
    last = {kind: index for index, kind in enumerate(kinds)}
    return (layer for index, layer in enumerate(layers) if last[kinds[index]] > index)


def _kind(written: WrittenGraph, layer: _Layer, parameters: Container[str]) -> Any:
    """What is equal for equal layers alone."""
    nodes = [written.model.graph.node[index] for index in layer.nodes]
    if any(attribute.HasField("g") or attribute.graphs for node in nodes for attribute in node.attribute):
        return layer.path  # the names in a branch are its own
    labels: dict[str, Any] = {"": None, layer.before: "before"}
    operations: list[Any] = []
    for node in nodes:
        attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
        labels |= {name: _outside(written, layer, parameters, name) for name in node.input if name not in labels}
        inputs = tuple(labels[name] for name in node.input)
        operations.append((node.domain, node.op_type, node.overload, tuple(attributes), inputs, len(node.output)))
        labels |= {name: (len(operations), index) for index, name in enumerate(node.output)}
    return tuple(operations), labels[layer.after]


def _outside(written: WrittenGraph, layer: _Layer, parameters: Container[str], name: str) -> Any:
    """What a layer reads from outside: its own weight by name, a constant by its elements, a value by its name."""
    tensor = written.initializers.get(name)
    if tensor is None:
        return name
    weight, start, shape = name.removeprefix(PREFIX), f"{layer.path}.", (tensor.data_type, *tensor.dims)
    if weight.startswith(start) and (weight in parameters or tensor.external_data):
        return weight.removeprefix(start), *shape
    return name if tensor.external_data else (hashlib.sha256(_elements(tensor)).digest(), *shape)


def _elements(tensor: Any) -> bytes:
    import onnx

    elements: bytes = onnx.numpy_helper.to_array(tensor).tobytes()
    return elements


def _without(written: WrittenGraph, dropped: Sequence[_Layer]) -> bytes:
    """The ONNX model of a file in which layers are the identity."""
    import onnx

    graph = written.model.graph
    gone = {index for layer in dropped for index in layer.nodes}
    identities = {layer.after: onnx.helper.make_node("Identity", [layer.before], [layer.after]) for layer in dropped}
    nodes = []
    for index, node in enumerate(graph.node):
        nodes += [identities[name] for name in node.output if name in identities] if index in gone else [node]
    return written.with_nodes(nodes)
