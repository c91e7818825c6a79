"""Recorded tensors of PyTorch, each with the value of a graph that equals it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen
from toolz import groupby

from onnxfn.check.cuts.graph_values import GraphValues
from onnxfn.check.cuts.recorded_tensors import RecordedTensor
from onnxfn.check.verdict.compare import Select, compare, token_features, valid_elements
from onnxfn.graphs.capture.capture import parameter_names
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr

Rows = Mapping[int, tuple[Sequence[str], Array]]
"""From a number of elements to the names of the values that have as many, and a matrix with a row for each."""


@frozen(field_transformer=typed_fields)
class TensorPair:
    """A tensor of PyTorch and the value of the graph that stands for it.

    Attributes:
        module: The path of the module that computes the tensor; empty for the model itself.
        value: The name of the value; None if the graph has none, because a fusion removed it.
        max_abs: The largest absolute difference; infinite without a value.

    >>> print(TensorPair("encoder.layer.0.output", "add_7", 0.25))
    encoder.layer.0.output (value 'add_7' of the graph, 2.5e-01 away)
    """

    module: str
    value: str | None
    max_abs: float

    __repr__ = short_repr

    def __str__(self) -> str:
        value = "no value of the graph" if self.value is None else f"value {self.value!r} of the graph"
        distance = "" if self.value is None else f", {self.max_abs:.1e} away"
        return f"{self.module or 'the model itself'} ({value}{distance})"


@frozen(eq=False)
class MatchedTensor:
    """A recorded tensor and the name of the value of the graph that equals it; None if none does within the tolerance.

    `max_abs`: the largest absolute difference; infinite without a value. `weights`: the weights of the module that
    takes or returns the tensor, as far as the graph has them.
    """

    tensor: RecordedTensor
    value: str | None
    max_abs: float
    weights: frozenset[str]


def matched_tensors(
    model: Any, spec: PlannedSpec, tensors: Sequence[RecordedTensor], values: GraphValues, inputs: Mapping[str, Array]
) -> list[MatchedTensor]:
    """The tensors, each with the closest value of the graph if that equals it. A planned output has its own value."""
    rows, weights = rows_by_size(values.arrays), _weights_of(model, values)
    matched = []
    for tensor in tensors:
        select = elements_of_tokens(spec, tensor, inputs)
        own = weights(tensor.module)
        value, distance = closest_value(tensor.array, rows, select, partial(_may_equal, tensor, own, values))
        actual = None if value is None else values.arrays[value].reshape(tensor.array.shape)
        equal = actual is not None and compare(spec, "", "", actual, tensor.array, select).passed
        matched.append(MatchedTensor(tensor, value if equal else None, distance if equal else np.inf, own))
    return matched


def counterpart(
    spec: PlannedSpec,
    values: GraphValues,
    inputs: Mapping[str, Array],
    used: Container[str | None],
    each: MatchedTensor,
) -> TensorPair:
    """A tensor without an equal value, and its counterpart in the graph.

    For the result of a leaf it is the first value that depends on all weights of the leaf; for any other tensor, the
    closest possible value. A value that equals another tensor (`used`) is not a counterpart.
    """
    tensor, own = each.tensor, each.weights

    def may_stand(name: str, array: Array) -> bool:
        weights = values.weights.get(name, frozenset())
        return own <= weights if tensor.is_result else not own & weights and array.shape == tensor.array.shape

    arrays = {name: array for name, array in values.arrays.items() if array.size == tensor.array.size}
    if tensor.output:
        arrays = {name: array for name, array in arrays.items() if name == tensor.output}
    else:
        names = [name for name, array in arrays.items() if may_stand(name, array)]
        names = names[:1] if tensor.is_of_leaf and tensor.is_result else names
        arrays = {name: arrays[name] for name in names if name not in used}
    select = elements_of_tokens(spec, tensor, inputs)
    return TensorPair(tensor.computed_by, *closest_value(tensor.array, rows_by_size(arrays), select))


def rows_by_size(arrays: Mapping[str, Array]) -> Rows:
    """The values of a graph, grouped by their number of elements."""
    names = groupby(lambda name: arrays[name].size, arrays)
    return {size: (group, np.stack([arrays[name].reshape(-1) for name in group])) for size, group in names.items()}


def closest_value(
    array: Array, rows: Rows, select: Select, is_allowed: Callable[[str], bool] = bool
) -> tuple[str | None, float]:
    """The name of the allowed value that is closest to an array, and their largest difference; None if none fits.

    Values with as many elements fit, whatever their shape: a graph may have them flat.
    """
    names, matrix = rows.get(array.size, ((), np.zeros((0, array.size))))
    allowed = [index for index, name in enumerate(names) if is_allowed(name)]
    if not allowed:
        return None, float("inf")
    selected = select(np.arange(array.size).reshape(array.shape)).reshape(-1)
    left, right = matrix[allowed][:, selected], array.reshape(-1)[selected]
    with np.errstate(invalid="ignore"):
        differences = np.where(left == right, 0.0, np.abs(left - right))
    distances = np.where(np.isnan(differences), np.inf, differences).max(axis=1, initial=0.0)
    best = int(distances.argmin())
    return names[allowed[best]], float(distances[best])


def elements_of_tokens(spec: PlannedSpec, tensor: RecordedTensor, inputs: Mapping[str, Array]) -> Select:
    """Selects the elements of a tensor that are compared: those of tokens, not of padding."""
    if tensor.output:
        return valid_elements(spec, spec.outputs[tensor.output], inputs)
    return token_features(spec, tensor.array.shape, inputs)


def _may_equal(tensor: RecordedTensor, weights: frozenset[str], values: GraphValues, value: str) -> bool:
    """Whether a value may stand for a tensor: a planned output has its own, a result of a leaf all its weights."""
    if tensor.output:
        return value == tensor.output
    # Otherwise a product before its bias is added could match a layer without its bias.
    return not (tensor.is_result and tensor.is_of_leaf) or weights <= values.weights.get(value, frozenset())


def _weights_of(model: Any, values: GraphValues) -> Callable[[str], frozenset[str]]:
    """A function from the path of a module to the names of its weights in the graph."""
    name_of = parameter_names(model)
    names = {path: name_of(tensor) for path, tensor in model.state_dict(keep_vars=True).items()}
    in_graph = frozenset[str]().union(*values.weights.values())
    return lambda module: frozenset(
        name for path, name in names.items() if name in in_graph and path.startswith(f"{module}." if module else "")
    )
