"""Products with large matrices that ONNX Runtime would copy, computed by blocks of columns.

On CPUs ONNX Runtime multiplies in float32: after a float16 matrix, such as a head, it inserts a Cast to twice the size.
A head that is tied to the embedding is stored transposed, and a Transpose copies all of it. A column of a product
depends on one column of the matrix, so blocks give the same result. PyTorch computes in the same way: `casting.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.check.cuts.vertices import read_names

LARGE = 1 << 26
"""Elements of a matrix from which on its columns are copied in blocks: 268 MB in float32."""

SWAPPED = (1, 0)
"""The order in which a Transpose puts the axes of a matrix."""


@frozen
class Matrix:
    """The initializer that a product sums over the rows of; `dtype` is a number of ONNX."""

    name: str
    rows: int
    columns: int
    dtype: int
    is_transposed: bool


def large_matrices(nodes: Sequence[Any], initializers: Mapping[str, Any], large: int = LARGE) -> dict[str, Matrix]:
    """The matrices of at least `large` elements that products read and ONNX Runtime would copy, by the names read."""
    transposes = {node.output[0]: node.input[0] for node in nodes if _swaps_axes(node)}
    names = [node.input[1] for node in nodes if node.op_type == "MatMul"]
    matrices = {name: _matrix(name, transposes.get(name, name), initializers) for name in names}
    return {name: each for name, each in matrices.items() if each is not None and each.rows * each.columns >= large}


def products_by_columns(
    nodes: Sequence[Any], initializers: Mapping[str, Any], large: int = LARGE, block: int = 1 << 22
) -> tuple[list[Any], list[Any]]:
    """Nodes with products by blocks of at most `block` elements in place of large ones, and the blocks' constants."""
    # A block has 17 MB in float32. A Transpose that only these products read is left out.
    matrices = large_matrices(nodes, initializers, large)
    unread = matrices.keys() - {name for node in nodes if not _reads(node, matrices) for name in read_names(node)}
    constants: dict[str, Any] = {}
    replaced: list[Any] = []
    for node in nodes:
        if _reads(node, matrices):
            replaced += _by_columns(node, matrices[node.input[1]], block, constants)
        elif unread.isdisjoint(node.output):
            replaced.append(node)
    return replaced, [*constants.values()]


def _reads(product: Any, matrices: Mapping[str, Matrix]) -> bool:
    return product.op_type == "MatMul" and product.input[1] in matrices


def _swaps_axes(node: Any) -> bool:
    orders = [tuple(attribute.ints) for attribute in node.attribute if attribute.name == "perm"]
    return node.op_type == "Transpose" and orders in ([], [SWAPPED])


def _matrix(name: str, stored: str, initializers: Mapping[str, Any]) -> Matrix | None:
    """The matrix that is read by a name and stored by another; None if ONNX Runtime does not copy it."""
    from onnx import TensorProto

    tensor, is_transposed = initializers.get(stored), stored != name
    copied = (TensorProto.FLOAT16, TensorProto.FLOAT) if is_transposed else (TensorProto.FLOAT16,)
    if tensor is None or len(tensor.dims) != len(SWAPPED) or tensor.data_type not in copied:
        return None
    rows, columns = reversed(tensor.dims) if is_transposed else tensor.dims
    return Matrix(stored, rows, columns, tensor.data_type, is_transposed)


def _by_columns(node: Any, matrix: Matrix, block: int, constants: dict[str, Any]) -> list[Any]:
    """The nodes of a product by blocks of columns, each of at most `block` elements; their constants are added."""
    from onnx import TensorProto
    from onnx.helper import make_node
    from onnx.numpy_helper import from_array

    nodes: list[Any] = []

    def add(operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"{node.output[0]}/columns/{len(nodes)}"
        nodes.append(make_node(operator, inputs, [name], **attributes))
        return name

    # Each Cast is stated: ONNX Runtime would add its own as last nodes, and run all slices before them.
    factor, axis = add("Cast", [node.input[0]], to=TensorProto.FLOAT), 0 if matrix.is_transposed else 1
    width, products = max(1, block // matrix.rows), []
    for start in range(0, matrix.columns, width):
        numbers = [np.array([number], np.int64) for number in (start, min(start + width, matrix.columns), axis)]
        bounds = [f"columns/{number[0]}" for number in numbers]
        constants.update(zip(bounds, map(from_array, numbers, bounds), strict=True))
        part = add("Cast", [add("Slice", [matrix.name, *bounds])], to=TensorProto.FLOAT)
        part = add("Transpose", [part], perm=SWAPPED) if matrix.is_transposed else part
        products.append(add("Cast", [add("MatMul", [factor, part])], to=matrix.dtype))
    return [*nodes, make_node("Concat", products, [node.output[0]], axis=-1)]
