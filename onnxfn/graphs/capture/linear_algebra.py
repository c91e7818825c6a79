"""Translations to ONNX of linear equations: inverses, solutions, logarithms of determinants, Cholesky factors.

The elimination of a matrix of n rows is unrolled: about ten nodes for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

MOST_ROWS = 32
"""The rows of the largest matrix that is translated."""


def linear_algebra_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values."""
    import torch

    aten = torch.ops.aten
    removed = {aten.cholesky.default: _cholesky} if hasattr(aten, "cholesky") else {}  # torch 2.15 has it no more
    return {
        **removed,
        aten.inverse.default: _inverse,
        aten.linalg_cholesky.default: _cholesky,
        aten.linalg_cholesky_ex.default: lambda matrix, **options: (_cholesky(matrix, **options), _no_error()),
        aten.linalg_inv.default: _inverse,
        aten.linalg_inv_ex.default: lambda matrix, **_: (_inverse(matrix), _no_error()),
        aten.linalg_slogdet.default: _slogdet,
        aten.linalg_solve.default: _solve,
        aten.linalg_solve_triangular.default: _solve_triangular,
        aten.slogdet.default: _slogdet,
    }


@frozen
class Elimination:
    """The elimination of a matrix by Gauss and Jordan, with the largest element of each column as its pivot.

    Attributes:
        rest: What became of the columns beside the matrix, in the order of its rows.
        order: The permutation matrix whose row k chooses the pivot row of column k.
        pivots: The pivots, one for each column.
    """

    rest: Any
    order: Any
    pivots: Sequence[Any]


def _eliminated(matrix: Any, others: Any, rows: int) -> Elimination:
    """The elimination of a matrix `[..., n, n]` with other columns `[..., n, m]` beside it."""
    from onnxscript import opset18 as op

    zero, lowest = (op.CastLike(op.Constant(value_float=number), matrix) for number in (0.0, -1.0))
    table = op.Concat(matrix, others, axis=-1)
    unused = op.Equal(zero, zero)  # true for each row that was no pivot row yet
    choices, pivots = [], []
    for column in range(rows):
        values = op.Slice(table, _ints(column), _ints(column + 1), _ints(-1))
        sizes = op.Where(unused, op.Abs(values), lowest)
        largest = op.ArgMax(sizes, axis=-2, keepdims=1)
        places = op.Unsqueeze(op.Constant(value_ints=list(range(rows))), _ints(1))
        is_pivot = op.Equal(places, largest)
        chosen = op.ReduceSum(op.Where(is_pivot, table, zero), _ints(-2), keepdims=1)
        pivot = op.Slice(chosen, _ints(column), _ints(column + 1), _ints(-1))
        row = op.Div(chosen, pivot)
        table = op.Where(is_pivot, row, op.Sub(table, op.Mul(values, row)))
        unused = op.And(unused, op.Not(is_pivot))
        choices.append(op.CastLike(is_pivot, matrix))
        pivots.append(pivot)
    last = list(range(len(matrix.shape) - 2))
    order = op.Transpose(op.Concat(*choices, axis=-1), perm=[*last, len(last) + 1, len(last)])
    rest = op.Slice(table, _ints(rows), _ints(2**62), _ints(-1))
    return Elimination(op.MatMul(order, rest), order, pivots)


def _inverse(matrix: Any) -> Any:
    """The inverse of a matrix. No error is reported: a singular matrix gives infinities and NaN."""
    rows = _row_count(matrix)
    return _eliminated(matrix, _identity(matrix, rows), rows).rest


def _solve(matrix: Any, others: Any, left: bool = True) -> Any:  # noqa: FBT001, FBT002 - torch's own signature
    """The solution X of `matrix @ X = others`, or of `X @ matrix = others`; others may be a vector for each matrix."""
    from onnxscript import opset18 as op

    if len(others.shape) == len(matrix.shape) - 1:
        return op.Squeeze(_solution(matrix, op.Unsqueeze(others, _ints(-1)), matrix), _ints(-1))
    if left:
        return _solution(matrix, others, matrix)
    return _transposed(_solution(_transposed(matrix, matrix), _transposed(others, others), matrix), others)


def _solution(matrix: Any, others: Any, like: Any) -> Any:
    """The solution of equations by the inverse's elimination; the axes of the batch are broadcast."""
    from onnxscript import opset18 as op

    rows = _row_count(like)
    batch = op.Shape(op.MatMul(matrix, others))  # the shape of the solution
    broadcast = op.Expand(others, batch)
    squares = op.Concat(op.Slice(batch, _ints(0), _ints(-1)), _ints(rows), axis=0)
    wide = op.Expand(matrix, squares)
    wide.shape, wide.type = like.shape, like.type
    return _eliminated(wide, broadcast, rows).rest


def _slogdet(matrix: Any) -> Sequence[Any]:
    """The sign of a determinant, and the logarithm of its size."""
    from onnxscript import opset18 as op

    rows = _row_count(matrix)
    eliminated = _eliminated(matrix, _identity(matrix, rows), rows)
    pivots = op.Squeeze(op.Concat(*eliminated.pivots, axis=-1), _ints(-2))
    # `order` has one 1 in each row and column: its determinant is the sign of the permutation.
    sign = op.Mul(op.Det(eliminated.order), op.ReduceProd(op.Sign(pivots), _ints(-1), keepdims=0))
    size = op.ReduceSum(op.Log(op.Abs(pivots)), _ints(-1), keepdims=0)
    return sign, size


def _cholesky(matrix: Any, upper: bool = False, **_: Any) -> Any:  # noqa: FBT001, FBT002 - torch's own signature
    """The lower triangular L with `L @ L.T = matrix`, or its transpose. No error is reported."""
    from onnxscript import opset18 as op

    rows, rest, columns = _row_count(matrix), matrix, []
    zero = op.CastLike(op.Constant(value_float=0.0), matrix)
    for number in range(rows):
        values = op.Slice(rest, _ints(number), _ints(number + 1), _ints(-1))
        pivot = op.Slice(values, _ints(number), _ints(number + 1), _ints(-2))
        is_below = op.Unsqueeze(op.Constant(value=_booleans([row >= number for row in range(rows)])), _ints(1))
        column = op.Where(is_below, op.Div(values, op.Sqrt(pivot)), zero)
        rest = op.Sub(rest, op.Mul(column, _transposed(column, matrix)))
        columns.append(column)
    lower = op.Concat(*columns, axis=-1)
    return _transposed(lower, matrix) if upper else lower


def _solve_triangular(
    matrix: Any,
    others: Any,
    upper: bool,  # noqa: FBT001 - torch's own signature
    left: bool = True,  # noqa: FBT001, FBT002
    unitriangular: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """The solution of equations whose matrix is triangular: the other triangle is not read."""
    from onnxscript import opset18 as op

    rows = _row_count(matrix)
    triangle = op.Trilu(matrix, op.Constant(value_int=0), upper=int(upper))
    if unitriangular:
        strict = op.Trilu(matrix, op.Constant(value_int=1 if upper else -1), upper=int(upper))
        triangle = op.Add(strict, _identity(matrix, rows))
    if left:
        return _solution(triangle, others, matrix)
    return _transposed(_solution(_transposed(triangle, matrix), _transposed(others, others), matrix), others)


def _row_count(matrix: Any) -> int:
    """The number of rows of a matrix; ValueError if it is dynamic or more than `MOST_ROWS`."""
    rows = matrix.shape[-1]
    if not isinstance(rows, int) or rows > MOST_ROWS:
        raise ValueError(f"the matrix has {rows} rows; at most {MOST_ROWS} are translated, and their number is static")
    return rows


def _transposed(value: Any, like: Any) -> Any:
    """A value with its last two axes exchanged; it has the rank of another."""
    from onnxscript import opset18 as op

    *batch, rows, columns = range(max(len(like.shape), 2))
    return op.Transpose(value, perm=[*batch, columns, rows])


def _identity(matrix: Any, rows: int) -> Any:
    """The identity matrix, as often as there are matrices."""
    import numpy as np
    import onnx_ir
    from onnxscript import opset18 as op

    unit = op.CastLike(op.Constant(value=onnx_ir.tensor(np.eye(rows, dtype=np.float32))), matrix)
    return op.Expand(unit, op.Shape(matrix))


def _no_error() -> Any:
    """Zero: what torch returns beside a result if no matrix is singular."""
    import numpy as np
    import onnx_ir
    from onnxscript import opset18 as op

    return op.Constant(value=onnx_ir.tensor(np.zeros((), np.int32)))


def _booleans(values: Sequence[bool]) -> Any:
    import numpy as np
    import onnx_ir

    return onnx_ir.tensor(np.asarray(values))


def _ints(*numbers: int) -> Any:
    from onnxscript import opset18 as op

    return op.Constant(value_ints=list(numbers))
