"""A pass that orders and names nodes by structure alone: sets in transformers make the order of a trace random."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from onnxfn.graphs.nodes.nodes import all_inputs, module_path, node_name, nodes_inside_out, subgraphs
from onnxfn.graphs.nodes.slots import slot_of


def order_by_structure(model: Any) -> Any:
    """Orders and names nodes, values and initializers by the structure of the graph.

    After: the nodes that the first output needs come first, each after its operands; then those of the next output.
    Values are named after their operators, nodes after their modules and operators, with a number in this order.
    Initializers are in the order of their first reads. Inputs, outputs and parameters keep their names.
    """
    _order_nodes(model.graph)
    taken = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    taken |= {value.name for value in model.graph.initializers.values() if slot_of(value) is not None}
    _name_values(model.graph, list(nodes_inside_out(model.graph)), taken)
    return number_nodes(model)


def number_nodes(model: Any) -> Any:
    """Names each node after its module and operator: `encoder.layer.0/Add`, the next one `encoder.layer.0/Add_1`."""
    counts: Counter[str] = Counter()
    for node in nodes_inside_out(model.graph):
        name = node_name(module_path(node), node.op_type)
        node.name = f"{name}_{counts[name]}" if counts[name] else name
        counts[name] += 1
        for number, inner in enumerate(subgraphs(node)):
            inner.name = f"{node.name}_graph_{number}"
    return model


def _order_nodes(graph: Any) -> None:
    """Orders the nodes of a graph and of its subgraphs by the needs of its outputs."""
    for node in graph:
        for inner in subgraphs(node):
            _order_nodes(inner)
    ordered, entered = list[Any](), set[Any]()
    pending: list[tuple[Any, Iterator[Any]]] = [(None, chain(_nodes_of(graph.outputs, graph), list(graph)))]
    while pending:
        node, needed = pending[-1]
        following = next((other for other in needed if other not in entered), None)
        if following is None:
            ordered.append(node)
            pending.pop()
        else:
            entered.add(following)
            pending.append((following, _nodes_of(all_inputs(following), graph)))
    graph.extend(ordered[:-1])  # without None; a node that the graph has already is moved to its end


def _nodes_of(values: Iterable[Any], graph: Any) -> Iterator[Any]:
    """The nodes of a graph that compute values, in order."""
    producers = (value.producer() for value in values)
    return (producer for producer in producers if producer is not None and producer.graph is graph)


def _name_values(graph: Any, nodes: list[Any], taken: Collection[str]) -> None:
    """Names the outputs of nodes, the inputs of inner graphs and constants; puts initializers in the order of use."""
    ports = {*graph.inputs, *graph.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)
    initializers = [value for value in read if value.is_initializer()]
    named = [(value, "constant") for value in initializers if slot_of(value) is None and value not in ports]
    named += [(value, "item") for node in nodes for inner in subgraphs(node) for value in inner.inputs]
    outputs = [(value, node.op_type) for node in nodes for value in node.outputs]
    named += [(value, kind) for value, kind in outputs if value.name and value not in ports]
    for number, (value, _) in enumerate(named):
        value.name = f"__renamed {number}"  # so that no new name is an old one of another value
    names = _numbered([kind for _, kind in named], taken)
    for (value, _), name in zip(named, names, strict=True):
        value.name = name
    for value in initializers:
        if slot_of(value) is not None:
            holder = value.graph
            del holder.initializers[value.name]
            holder.initializers[value.name] = value


def _numbered(kinds: list[str], taken: Collection[str]) -> Iterator[str]:
    """For each kind a unique name: the kind and a number."""
    counts: Counter[str] = Counter()
    for kind in kinds:
        while (name := f"{kind}_{counts[kind]}") in taken:
            counts[kind] += 1
        counts[kind] += 1
        yield name
