"""The nodes that read a weight of a graph, in the terms of quantization: products, lookups, convolutions."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from onnxfn.graphs.nodes.nodes import attribute, is_operator, shape_of
from onnxfn.specs.quantization import ReadingOperator

MATRIX_RANK = 2


@frozen(eq=False)
class Read:
    """A node that reads a weight, by `MatMul` (also Gemm), `Gather` (also a GatherND that does the same), or `Conv`.

    `rows_first`: the weight has the axes `[rows, columns]`. A product sums over the elements of a row; in a lookup, a
    row belongs to one token. `transpose`: the Transpose between the weight and the node, if there is one.
    """

    operator: ReadingOperator
    node: Any
    rows_first: bool
    transpose: Any = None


def weight_reads(value: Any) -> tuple[tuple[Read, ...], str]:
    """The nodes that read a weight, and the reason why others cannot read codes; an empty text if all can."""
    reads: list[Read] = []
    is_port = value.is_graph_output() or value.is_graph_input()
    reasons: list[str] = ["it is an input or an output of the graph"] if is_port else []
    for use in value.uses():
        of_node = _transposed_reads(use.node) if is_operator(use.node, "Transpose") else (_read(use.node, use.idx),)
        reads.extend(read for read in of_node if read is not None)
        if None in of_node or not of_node:
            reasons.append(f"{use.node.op_type} reads it")
    return tuple(reads), reasons[0] if reasons else ""


def _transposed_reads(transpose: Any) -> tuple[Read | None, ...]:
    """The reads of a transposed weight; None for a node that cannot read codes."""
    output = transpose.outputs[0]
    if len(shape_of(transpose.inputs[0])) != MATRIX_RANK or output.is_graph_output():
        return (None,)
    perm = attribute(transpose, "perm")
    if perm is not None and list(perm) != [1, 0]:
        return (None,)
    reads = [_read(use.node, use.idx) for use in output.uses()]
    return tuple(
        Read("MatMul", read.node, not read.rows_first, transpose)
        if read is not None and read.operator == "MatMul"
        else None
        for read in reads
    )


def _read(node: Any, index: int) -> Read | None:
    """The Read of a weight by a node as the input of this index; None if the node cannot read codes."""
    rank = len(shape_of(node.inputs[index]))
    if is_operator(node, "MatMul") and index == 1 and rank == MATRIX_RANK and len(shape_of(node.inputs[0])) != 1:
        return Read("MatMul", node, rows_first=False)
    factors = (attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0), attribute(node, "transA", 0))
    if is_operator(node, "Gemm") and index == 1 and factors == (1.0, 1.0, 0):
        return Read("MatMul", node, rows_first=bool(attribute(node, "transB", 0)))
    if is_operator(node, "Gather") and index == 0 and attribute(node, "axis", 0) == 0 and rank >= MATRIX_RANK:
        return Read("Gather", node, rows_first=True)
    if is_operator(node, "GatherND") and index == 0 and attribute(node, "batch_dims", 0) == 0 and rank >= MATRIX_RANK:
        is_lookup = shape_of(node.inputs[1])[-1:] == (1,)  # each index is a single number
        return Read("Gather", node, rows_first=True) if is_lookup else None
    if is_operator(node, "Conv") and index == 1:
        return Read("Conv", node, rows_first=True)
    return None
