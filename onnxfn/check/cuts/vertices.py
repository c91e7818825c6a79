"""The vertices of a graph to cut into sections: inputs and nodes, each with the layers whose weights it reads."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from onnxfn.graphs.passes.merging import PREFIX

OUTSIDE = -1
"""The mark of weights that belong to no layer."""

NO_LAYERS: frozenset[int] = frozenset()


@frozen(eq=False)
class Vertex:
    """A node of a graph with its index there, or an input.

    `inputs`: the values that it reads, also inside branches, without initializers. `data`: the inputs on whose elements
    its values depend. `reads`: the indices of the layers whose weights it reads, `OUTSIDE` for weights of no layer; a
    node of weights alone has none. `operator`: empty for an input. `is_float_input`: of real numbers, of no layer.
    """

    node: int | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: tuple[str, ...]
    reads: frozenset[int] = NO_LAYERS
    operator: str = ""
    is_float_input: bool = False


def vertices_of(
    graph: Any, layers: Sequence[str], parameters: Iterable[str], of_layers: Collection[str]
) -> tuple[Vertex, ...]:
    """The vertices of an `onnx.GraphProto`: its inputs, then its nodes in their order. See `graph_sections`."""
    mark = _marks(layers, parameters)
    initializers = {each.name: mark(each.name.removeprefix(PREFIX)) for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in initializers]
    known: dict[str, frozenset[int]] = {**initializers, "": NO_LAYERS}
    nodes = [_vertex(index, node, known, initializers) for index, node in enumerate(graph.node)]
    floats = {each.name for each in inputs if each.name not in of_layers and is_float(each.type.tensor_type.elem_type)}
    ports = (Vertex(None, (), (each.name,), (), is_float_input=each.name in floats) for each in inputs)
    return (*ports, *nodes)


def _vertex(
    index: int, node: Any, known: dict[str, frozenset[int]], initializers: Mapping[str, frozenset[int]]
) -> Vertex:
    """The vertex of a node. If it reads nothing but weights, its outputs get their layers in `known`."""
    names = tuple(dict.fromkeys(name for name in read_names(node) if name))
    marks = NO_LAYERS.union(*(known.get(name, NO_LAYERS) for name in names))
    if marks and all(name in known for name in names):
        known.update(dict.fromkeys(node.output, marks))
        marks = NO_LAYERS
    inputs = tuple(name for name in names if name not in initializers)
    data = () if node.op_type in ("Shape", "Size") else inputs
    return Vertex(index, inputs, tuple(node.output), data, marks, node.op_type)


def read_names(node: Any) -> Iterator[str]:
    """The names that a node and its branches read from the outer graph."""
    yield from node.input
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            inner = {each.name for each in (*body.input, *body.initializer)}.union(*(each.output for each in body.node))
            names = [name for each in body.node for name in read_names(each)]
            yield from (name for name in (*names, *(each.name for each in body.output)) if name not in inner)


def _marks(layers: Sequence[str], parameters: Iterable[str]) -> Callable[[str], frozenset[int]]:
    """A function from the name of an initializer to the layer whose weight it is; constants are of none."""
    prefix = layers[0].rpartition(".")[0]
    indices = {path: index for index, path in enumerate(layers)}
    names = {*parameters}
    modules = {name.rpartition(".")[0] for name in names} - {""}

    def mark(name: str) -> frozenset[int]:
        first, _, _ = name.removeprefix(f"{prefix}." if prefix else "").partition(".")
        path = f"{prefix}.{first}" if prefix else first
        if path in indices and name.startswith(f"{path}."):
            return frozenset({indices[path]})
        # The names of quantized and packed weights begin as those of the parameters.
        return frozenset({OUTSIDE}) if _begins_as(name, names) or name.rpartition(".")[0] in modules else NO_LAYERS

    return mark


def _begins_as(name: str, names: Collection[str]) -> bool:
    """Whether a name, or a beginning of it that ends before a dot, is among names."""
    return bool(name) and (name in names or _begins_as(name.rpartition(".")[0], names))


def is_float(number: int | None) -> bool:
    """Whether a number of ONNX is that of a type of real numbers."""
    from onnx import TensorProto

    return number in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
