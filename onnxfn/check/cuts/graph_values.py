"""All values of the nodes of an ONNX file, and the weights that each value depends on."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from attrs import frozen

from onnxfn.check.cuts.runs import WrittenGraph, written_graph
from onnxfn.graphs.passes.merging import PREFIX
from onnxfn.run.sessions import open_check_session, run_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.quantized import Role

Weights = frozenset[str]
"""The names of initializers, without the prefix of those that only a filler reads."""

NONE: Weights = frozenset()


@frozen(eq=False)
class GraphValues:
    """The floating-point values of a graph in one run, in the order of the nodes, and the initializers behind each.

    `sibling_weights`: from an initializer to those behind the other inputs of the first node that reads it.
    """

    arrays: Mapping[str, Array]
    weights: Mapping[str, Weights]
    sibling_weights: Mapping[str, Weights]


def graph_values(file: Path, inputs: Mapping[str, Array], content: bytes | None = None) -> GraphValues:
    """The values of an ONNX file, or of `content`, outside inner graphs. CheckFailed if ONNX Runtime cannot run it."""
    written = written_graph(file, content)
    graph = written.model.graph
    computed = computed_values(written, [name for node in graph.node for name in node.output if name], inputs)
    computed |= inputs
    in_order = [*inputs, *(name for node in graph.node for name in node.output)]
    arrays = {name: computed[name] for name in in_order if isinstance(computed.get(name), np.ndarray)}
    floats = {name: array for name, array in arrays.items() if array.dtype.kind == "f" and array.size > 0}
    weights, siblings = _weights(graph), dict[str, Weights]()
    for read in (node.input for node in graph.node):
        for name in read:
            siblings.setdefault(name, NONE.union(*(weights.get(other, NONE) for other in read if other != name)))
    return GraphValues({name: array.astype(np.float32) for name, array in floats.items()}, weights, siblings)


def computed_values(written: WrittenGraph, names: Iterable[str], inputs: Mapping[str, Array]) -> dict[str, Any]:
    """The outputs of a written file, and the values of these names, in one run. CheckFailed if ONNX Runtime refuses."""
    session = open_check_session(written.file, content=written.with_outputs([*names]))
    results = run_session(session, None, inputs, f"{written.file.name} with more of its values as outputs")
    return dict(zip((output.name for output in session.get_outputs()), results, strict=True))


def _weights(graph: Any, outside: Mapping[str, Weights] = MappingProxyType({})) -> dict[str, Weights]:
    """From each value of a graph to the initializers that it is computed from; `outside`: those of outer values."""
    weights = dict(outside)
    for each in graph.initializer:  # of codes, scales and zero points, also the name of the weight that they are
        name = each.name.removeprefix(PREFIX)
        weight, _, role = name.rpartition(".")
        weights[each.name] = frozenset([name, weight] if role in get_args(Role) else [name])
    for node in graph.node:  # in the order in which they are computed
        weights.update(zip(node.output, _weights_of_outputs(node, weights), strict=True))
    return weights


def _weights_of_outputs(node: Any, weights: Mapping[str, Weights]) -> list[Weights]:
    """The initializers that each output of a node is computed from; each output of an If has those of its branches."""
    bodies = [graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs) if graph.output]
    inner = [[_weights(body, weights).get(output.name, NONE) for output in body.output] for body in bodies]
    read = NONE.union(*(weights.get(name, NONE) for name in node.input))
    if node.op_type == "If":
        return [read.union(*branches) for branches in zip(*inner, strict=True)]
    return [read.union(*(each for body in inner for each in body))] * len(node.output)
