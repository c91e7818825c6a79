"""The products of a section with large float16 matrices, some columns after the other.

ONNX Runtime's CPU multiplies float32. It puts a Cast after a float16 matrix, so that the head of a model with many
tokens would be in memory in float32, in twice its size. Each column of a product is that of one column of the matrix,
so that blocks of columns have the same result. PyTorch's products are computed in the same way, see `casting.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

LARGE = 1 << 26
"""Elements of a matrix from which on its columns are converted in blocks: 268 MB in float32."""

BLOCK = 1 << 22
"""Elements of a block of columns: 17 MB in float32."""


def products_by_columns(
    nodes: Sequence[Any], initializers: Mapping[str, Any], large: int = LARGE, block: int = BLOCK
) -> tuple[list[Any], list[Any]]:
    """Nodes with products by blocks of columns in place of those with large float16 matrices, and their constants.

    A matrix of at least `large` elements is large; a block has at most `block`, or one column.
    """
    replaced: list[Any] = []
    constants: dict[str, Any] = {}
    for node in nodes:
        if is_large_product(node, initializers, large):
            rows, columns = initializers[node.input[1]].dims
            replaced += _by_columns(node, columns, max(1, block // rows), constants)
        else:
            replaced.append(node)
    return replaced, [*constants.values()]


def is_large_product(node: Any, initializers: Mapping[str, Any], large: int = LARGE) -> bool:
    """Whether a node is a product with a float16 matrix of at least so many elements."""
    from onnx import TensorProto

    matrix = initializers.get(node.input[1]) if node.op_type == "MatMul" else None
    if matrix is None:
        return False
    is_half_matrix = matrix.data_type == TensorProto.FLOAT16 and len(matrix.dims) == 2  # noqa: PLR2004 - a matrix
    return bool(is_half_matrix and math.prod(matrix.dims) >= large)


def _by_columns(node: Any, columns: int, width: int, constants: dict[str, Any]) -> Iterator[Any]:
    """The nodes of a product by blocks of so many columns.

    Each Cast is stated: ONNX Runtime would add its own as last nodes, and run all slices before them.
    """
    from onnx import TensorProto
    from onnx.helper import make_node

    output, blocks = node.output[0], []
    new = (f"{output}/columns/{number}" for number in count())
    factor, axis = next(new), _constant(1, constants)
    yield make_node("Cast", [node.input[0]], [factor], to=TensorProto.FLOAT)
    for start in range(0, columns, width):
        bounds = _constant(start, constants), _constant(min(start + width, columns), constants)
        half, wide, product, block = (next(new) for _ in range(4))
        yield make_node("Slice", [node.input[1], *bounds, axis], [half])
        yield make_node("Cast", [half], [wide], to=TensorProto.FLOAT)
        yield make_node("MatMul", [factor, wide], [product])
        yield make_node("Cast", [product], [block], to=TensorProto.FLOAT16)
        blocks.append(block)
    yield make_node("Concat", blocks, [output], axis=-1)


def _constant(number: int, constants: dict[str, Any]) -> str:
    """The name of an initializer with a number, which is added to the constants."""
    from onnx.numpy_helper import from_array

    name = f"columns/{number}"
    constants.setdefault(name, from_array(np.array([number], np.int64), name))
    return name
