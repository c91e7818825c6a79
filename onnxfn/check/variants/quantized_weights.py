"""Compares the quantized weights in an ONNX file with those of the model: each element is within its step.

Outputs show a fault in one weight only if it is large; the step of each block shows it everywhere. The weights are read
some rows at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.variants.quantized_matrices import QuantizedMatrix, Rows, quantized_matrices
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import Tick, no_tick

ELEMENTS_AT_ONCE = 1 << 18
"""The elements that are compared at once: the dozen arrays of a comparison fit the cache of a core."""


@frozen
class WeightError:
    """The error of a quantized weight in a file against the model's.

    Attributes:
        weight: The name of the weight in the model.
        cosine: The cosine of both.
        outside: The elements that are farther than their step allows.
        elements: All elements.
        first_row: The first row in the file with such an element; None if there is none.
    """

    weight: str
    cosine: float
    outside: int
    elements: int
    first_row: int | None

    def __str__(self) -> str:
        return (
            f"{self.outside} of {self.elements} elements of {self.weight} in the file are more than a step away from "
            f"the model's, first in row {self.first_row}"
        )


def quantized_weight_errors(
    model: Any, file: Path, tick: Tick = no_tick
) -> tuple[tuple[WeightError, ...], tuple[str, ...]]:
    """The error of each quantized weight of a file, and one line for each whose weight in the model is not known."""
    tensors = {name: tensor.detach() for name, tensor in model.state_dict(keep_vars=True).items()}
    errors: list[WeightError] = []
    unknown: list[str] = []
    for stored in quantized_matrices(file):
        tick()
        name = _weight_name(stored.name, tensors)
        matrix = stored if name is None else _without_padding(stored, tensors[name])
        tensor = None if name is None else _as_matrix(tensors[name], matrix.shape)
        if name is None or tensor is None:
            unknown.append(f"{matrix.name} is quantized in the file, and no weight of the model has its name and size")
        else:
            errors.append(_weight_error(matrix, name, tensor))
    return tuple(errors), tuple(unknown)


def _without_padding(matrix: QuantizedMatrix, tensor: Any) -> QuantizedMatrix:
    """The matrix without the columns of its last blocks that the weight does not have."""
    count, columns = matrix.shape
    width = tensor.numel() // count
    if not columns - matrix.padding <= width < columns:
        return matrix

    def rows(start: int, stop: int) -> Rows:
        values, allowed = matrix.rows(start, stop)
        return values[:, :width], allowed[:, :width]

    return evolve(matrix, shape=(count, width), rows=rows)


def _as_matrix(tensor: Any, shape: tuple[int, int]) -> Any:
    """A weight with two axes; None if its size is not that of the matrix."""
    rows, columns = shape
    if tensor.numel() != rows * columns:
        return None
    if tensor.dim() == 3 and tensor.shape[-1] != columns:  # noqa: PLR2004 - the matrices of experts
        tensor = tensor.mT
    return tensor if tuple(tensor.shape) in (shape, shape[::-1]) else tensor.reshape(rows, columns)


def _weight_name(name: str, tensors: Mapping[str, Any]) -> str | None:
    """The name of the weight of an initializer: the longest known start of the initializer's name, without a prefix."""
    shortened = name.removeprefix("filler.")
    return max((known for known in tensors if shortened.startswith(known)), key=len, default=None)


def _weight_error(matrix: QuantizedMatrix, name: str, tensor: Any) -> WeightError:
    """The error of a weight. A square matrix may be stored transposed: the closer of both orders is used."""
    orders = [order for order in (tensor, tensor.mT) if tuple(order.shape) == matrix.shape]
    errors = [_error(matrix, name, order) for order in orders]
    return min(errors, key=lambda error: (error.outside, -error.cosine))


def _error(matrix: QuantizedMatrix, name: str, weight: Any) -> WeightError:
    """The error of a weight whose axes are in the order of the matrix."""
    import torch

    outside, first_row, sums = 0, None, np.zeros(3)
    rows, columns = matrix.shape
    rows_at_once = max(1, ELEMENTS_AT_ONCE // columns)
    for start in range(0, rows, rows_at_once):
        stop = min(start + rows_at_once, rows)
        values, allowed = matrix.rows(start, stop)
        own: Array = weight[start:stop].to("cpu", torch.float32).numpy()
        is_outside = ~(np.abs(values - own) <= allowed)
        if first_row is None and is_outside.any():
            first_row = start + int(np.argmax(is_outside.any(axis=1)))
        outside += int(is_outside.sum())
        sums += [np.vdot(values, own), np.vdot(values, values), np.vdot(own, own)]
    norms = float(np.sqrt(sums[1] * sums[2]))
    cosine = float(sums[0]) / norms if norms else float(sums[1] == sums[2])
    return WeightError(name, cosine, outside, weight.numel(), first_row)
