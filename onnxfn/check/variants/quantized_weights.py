"""Compares the quantized weights in an ONNX file with those of the model: each element is within its step."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.variants.quantized_matrices import Elements, Index, QuantizedMatrix, quantized_matrices
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import Tick, no_tick


@frozen
class WeightError:
    """The error of a quantized weight; how many elements are `outside` their steps, and the first row with such."""

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


@frozen(eq=False)
class FileWeight:
    """A weight of a model and its matrix in a file without padding; `is_turned`: its last two axes are exchanged."""

    name: str
    matrix: QuantizedMatrix
    is_turned: bool


def weights_of_file(model: Any, file: Path) -> tuple[tuple[FileWeight, ...], tuple[str, ...]]:
    """The quantized weights of a file, and one line for each matrix whose weight in the model is not known."""
    tensors = tensors_by_name(model)
    weights: list[FileWeight] = []
    unknown: list[str] = []
    for stored in quantized_matrices(file):
        plain = stored.name.removeprefix("filler.")
        name = max((known for known in tensors if plain.startswith(known)), key=len, default=None)
        weight = None if name is None else _weight(stored, name, tensors[name])
        if weight is None:
            unknown.append(f"{stored.name} is quantized in the file, and no weight of the model has its name and size")
        else:
            weights.append(weight)
    return tuple(weights), tuple(unknown)


def tensors_by_name(model: Any) -> dict[str, Any]:
    """The weights of a model by all of their names."""
    return {name: tensor.detach() for name, tensor in model.state_dict(keep_vars=True).items()}


def quantized_weight_errors(
    model: Any, file: Path, tick: Tick = no_tick, reach: int = 0
) -> tuple[tuple[WeightError, ...], tuple[str, ...]]:
    """The error of each quantized weight of a file, within `reach` steps, and a line for each of no known weight."""
    weights, unknown = weights_of_file(model, file)
    tensors = tensors_by_name(model)
    return tuple(_error(weight, tensors[weight.name], tick, reach) for weight in weights), unknown


def _weight(stored: QuantizedMatrix, name: str, tensor: Any) -> FileWeight | None:
    """The weight of a matrix; None if its size is another."""
    matrix = _without_padding(stored, tensor)
    orders = (False, True) if tensor.dim() in (2, 3) else (False,)
    every = [FileWeight(name, matrix, order) for order in orders]
    every = [each for each in every if _fits(each, tensor)]
    if len(every) < 2:  # noqa: PLR2004 - both orders
        return next(iter(every), None)
    # As in a square matrix: a few rows show which order the file has.
    errors = [_error(each, tensor, rows=16) for each in every]
    return every[min((0, 1), key=lambda index: (errors[index].outside, -errors[index].cosine))]


def _fits(weight: FileWeight, tensor: Any) -> bool:
    """Whether the last axes of a tensor, its last one alone if these are turned, are the columns of the matrix."""
    rows, columns = weight.matrix.shape
    ends = [prod(tensor.shape[axis:]) for axis in range(1, tensor.dim())]
    return bool(tensor.numel() == rows * columns and columns in ([tensor.shape[-2]] if weight.is_turned else ends))


def _without_padding(matrix: QuantizedMatrix, tensor: Any) -> QuantizedMatrix:
    """The matrix without the columns of its last blocks that the weight does not have."""
    count, columns = matrix.shape
    width = tensor.numel() // count
    if not columns - matrix.padding <= width < columns:
        return matrix

    def elements(index: Index) -> Elements:
        every = matrix.elements(index)
        return evolve(every, as_rows=lambda array: every.as_rows(array)[:, :width])

    return evolve(matrix, shape=(count, width), elements=elements)


def _error(
    weight: FileWeight, tensor: Any, tick: Tick = no_tick, reach: int = 0, rows: int | None = None
) -> WeightError:
    """The error of a weight, or of its first rows in the file."""
    import torch

    outside, first_row, sums = 0, None, np.zeros(3)
    matrix, own_rows = weight.matrix, tensor.mT if weight.is_turned else tensor
    # The dozen arrays of a comparison of so many elements fit the cache of a core.
    count, step = min(rows or matrix.shape[0], matrix.shape[0]), max(1, (1 << 18) // matrix.shape[1])
    for start in range(0, count, step):
        tick()
        index = slice(start, min(start + step, count))
        elements = matrix.elements(index)
        values = elements.values()
        own: Array = _rows(own_rows, matrix, index).to("cpu", torch.float32).numpy()
        is_outside = ~(np.abs(values - own) <= elements.allowed(reach))
        if first_row is None and is_outside.any():
            first_row = start + int(np.argmax(is_outside.any(axis=1)))
        outside += int(is_outside.sum())
        sums += [np.vdot(values, own), np.vdot(values, values), np.vdot(own, own)]
    norms = float(np.sqrt(sums[1] * sums[2]))
    cosine = float(sums[0]) / norms if norms else float(sums[1] == sums[2])
    return WeightError(weight.name, cosine, outside, tensor.numel(), first_row)


def _rows(tensor: Any, matrix: QuantizedMatrix, index: slice) -> Any:
    """The rows of a weight that are these rows of a matrix. Each item of its first axis may have several."""
    rows, columns = matrix.shape
    per_item = rows // len(tensor)
    first, last = index.start // per_item, -(-index.stop // per_item)
    return tensor[first:last].reshape(-1, columns)[index.start - first * per_item : index.stop - first * per_item]
