"""The pass that makes one product of those of one value with several matrices of a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from onnxfn.graphs.passes.nodes import dims, instead, made, whole
from onnxfn.graphs.passes.slots import SLOT, slot_of


def pack_matmuls(model: Any) -> Any:
    """Before: a finished graph, its parameters slots. After: what a module multiplies by several matrices is split.

    Query, key and value are one product, and gate and up: their matrices, which nothing else reads, stand beside each
    other in one. For a token the work is to read them, and one product is shared out among threads once, not thrice.
    """
    groups: dict[Any, list[Any]] = {}
    for node in model.graph:
        module = _module(node)
        if module is not None:
            groups.setdefault((node.inputs[0], *module), []).append(node)
    for nodes in groups.values():
        if len(nodes) > 1:
            _pack(nodes)
    return model


def _module(node: Any) -> Any:
    """Of which module a node's matrix is, and all that it must share with those beside it; None for other nodes."""
    if node.op_type != "MatMul" or node.domain:
        return None
    matrix = node.inputs[1]
    known, plain = slot_of(matrix), len(dims(matrix)) == 2  # noqa: PLR2004 - a matrix
    if known is None or known.packed_with or not plain or len(matrix.uses()) != 1 or matrix.is_graph_output():
        return None
    module = known.parameter.rpartition(".")[0].rpartition(".")[0]
    return module, known.perm, dims(matrix)[0], matrix.dtype


def _pack(nodes: Sequence[Any]) -> None:
    first, graph = nodes[0], nodes[0].graph
    matrices, given = [node.inputs[1] for node in nodes], [node.outputs[0] for node in nodes]
    matrix = _beside(graph, matrices)
    width = dims(matrix)[1]
    product = made(first, "MatMul", [first.inputs[0], matrix], [(given[0], (*given[0].shape[:-1], width))])
    sizes = whole(graph, *(dims(one)[1] for one in matrices))
    split = made(first, "Split", [product.outputs[0], sizes], [(one, one.shape) for one in given], axis=-1)
    _name(product, f"{first.name}.packed", [f"{given[0].name}.packed"])
    _name(split, f"{first.name}.split", [f"{one.name}.split" for one in given])
    for old, new in zip(given, split.outputs, strict=True):
        instead(old, new)
    graph.remove(list(nodes), safe=True)
    for one in matrices:
        del graph.initializers[one.name]


def _beside(graph: Any, matrices: Sequence[Any]) -> Any:
    """A slot of all columns of several."""
    import onnx_ir

    known, *others = (one.meta[SLOT] for one in matrices)
    rows, width = dims(matrices[0])[0], sum(dims(one)[1] for one in matrices)
    value = onnx_ir.Value(
        name="+".join(one.name for one in matrices), shape=onnx_ir.Shape([rows, width]), type=matrices[0].type
    )
    value.meta[SLOT] = evolve(known, packed_with=tuple(one.parameter for one in others))
    graph.initializers.add(value)
    return value


def _name(node: Any, name: str, given: Sequence[str]) -> None:
    node.name = name
    for value, called in zip(node.outputs, given, strict=True):
        value.name = called
