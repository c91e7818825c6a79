"""The pass that multiplies a tensor by several matrices of one module in one product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from onnxfn.graphs.passes.constants import int_constant
from onnxfn.graphs.passes.nodes import insert_node, is_operator, replace_value
from onnxfn.graphs.passes.shapes import shape_of
from onnxfn.graphs.passes.slots import SLOT, slot_of

MATRIX_RANK = 2


def pack_matmuls(model: Any) -> Any:
    """Packs the matrices of one module that multiply the same tensor into one.

    Before: a finished graph, whose parameters are slots, multiplies a tensor by several matrices of one module, such as
    those of query, key and value, or of gate and up.
    After: it multiplies the tensor by one matrix, their columns side by side, and splits the product. A matrix that
    another node reads, too, is not packed. To decode a token is mostly to read the matrices, and ONNX Runtime shares
    one product among its threads once instead of three times.
    """
    groups: dict[Any, list[Any]] = {}
    for node in model.graph:
        key = _group(node)
        if key is not None:
            groups.setdefault((node.inputs[0], *key), []).append(node)
    for nodes in groups.values():
        if len(nodes) > 1:
            _pack(nodes)
    return model


def _group(node: Any) -> tuple[Any, ...] | None:
    """What matrices that are packed together share: module, axis order, rows and dtype; None for any other node."""
    if not is_operator(node, "MatMul"):
        return None
    matrix = node.inputs[1]
    slot = slot_of(matrix)
    if slot is None or slot.packed_with or len(matrix.uses()) != 1 or matrix.is_graph_output():
        return None
    if len(shape_of(matrix)) != MATRIX_RANK:
        return None
    module = slot.parameter.rpartition(".")[0].rpartition(".")[0]
    return module, slot.perm, shape_of(matrix)[0], matrix.dtype


def _pack(nodes: Sequence[Any]) -> None:
    first, graph = nodes[0], nodes[0].graph
    matrices, outputs = [node.inputs[1] for node in nodes], [node.outputs[0] for node in nodes]
    matrix = _packed_matrix(graph, matrices)
    shape = None if outputs[0].shape is None else (*outputs[0].shape[:-1], shape_of(matrix)[1])
    product = insert_node(first, "MatMul", [first.inputs[0], matrix], [(outputs[0], shape)])
    widths = int_constant(graph, *(shape_of(matrix)[1] for matrix in matrices))
    shapes = [(output, output.shape) for output in outputs]
    split = insert_node(first, "Split", [product.outputs[0], widths], shapes, axis=-1)
    _name(product, f"{first.name}.packed", [f"{outputs[0].name}.packed"])
    _name(split, f"{first.name}.split", [f"{output.name}.split" for output in outputs])
    for old, new in zip(outputs, split.outputs, strict=True):
        replace_value(old, new)
    graph.remove(list(nodes), safe=True)
    for matrix in matrices:
        del graph.initializers[matrix.name]


def _packed_matrix(graph: Any, matrices: Sequence[Any]) -> Any:
    """A new slot with the columns of all matrices."""
    import onnx_ir

    slot, *others = (matrix.meta[SLOT] for matrix in matrices)
    rows, width = shape_of(matrices[0])[0], sum(shape_of(matrix)[1] for matrix in matrices)
    value = onnx_ir.Value(
        name="+".join(matrix.name for matrix in matrices),
        shape=onnx_ir.Shape([rows, width]),
        type=matrices[0].type,
    )
    value.meta[SLOT] = evolve(slot, packed_with=tuple(other.parameter for other in others))
    graph.initializers.add(value)
    return value


def _name(node: Any, name: str, output_names: Sequence[str]) -> None:
    node.name = name
    for value, output_name in zip(node.outputs, output_names, strict=True):
        value.name = output_name
