"""The first tensor of PyTorch that a graph computes wrongly, among the tensors without an equal value in the graph.

A tensor without an equal value is wrong, or a fusion removed it from the graph, or the graph has it in another layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxfn.check.bisect.matching import MatchedTensor, TensorPair
from onnxfn.check.cuts.graph_values import GraphValues

SAME_ELEMENTS = 1e-3
"""The difference, relative to the largest element, up to which two arrays have the same elements in another order."""


def first_wrong(
    tensors: Sequence[MatchedTensor], values: GraphValues, counterpart: Callable[[MatchedTensor], TensorPair]
) -> int | None:
    """The index of the first tensor that is wrong; None if all are right.

    A leaf (a module without inner modules) is wrong if its inputs are right and its result is not. The result is wrong
    if its value in the graph has other elements, or if no later right tensor is computed from it. Without a wrong leaf,
    the first tensor is wrong from which no later right tensor is computed.
    """
    unused = _unused(tensors, values)
    leaves = (
        index
        for index in _wrong_results(tensors)
        if index in unused or _is_another(tensors[index], values, counterpart)
    )
    leaf = next(leaves, None)
    if leaf is not None or not unused:
        return leaf
    return _source(tensors, min(unused))


def _unused(tensors: Sequence[MatchedTensor], values: GraphValues) -> set[int]:
    """The indices of tensors without an equal value and without a later right value that is computed from them.

    A value counts as computed from the input of a module if it depends on any weight of the module, and from the result
    if it depends on all of them.
    """
    unused = set()
    later = frozenset[str]()
    for index, each in reversed(list(enumerate(tensors))):
        own = each.weights
        if each.value is not None:
            later |= values.weights.get(each.value, frozenset())
        elif each.tensor.output or (own and not (own <= later if each.tensor.is_result else own & later)):
            unused.add(index)
    return unused


def _wrong_results(tensors: Sequence[MatchedTensor]) -> list[int]:
    """The indices of results without an equal value, of leaves with weights and right inputs."""
    wrong_calls = {each.tensor.call for each in tensors if each.value is None and not each.tensor.is_result}
    return [
        index
        for index, each in enumerate(tensors)
        if each.value is None
        and each.weights
        and each.tensor.is_result
        and each.tensor.is_of_leaf
        and each.tensor.call not in wrong_calls
    ]


def _is_another(each: MatchedTensor, values: GraphValues, counterpart: Callable[[MatchedTensor], TensorPair]) -> bool:
    """Whether the counterpart of a tensor has other elements; the same elements in another layout do not count."""
    value = counterpart(each).value
    if value is None:
        return False
    left, right = (np.sort(array, axis=None) for array in (values.arrays[value], each.tensor.array))
    tolerance = SAME_ELEMENTS * float(np.abs(right).max(initial=0.0))
    return not np.allclose(left, right, rtol=0.0, atol=tolerance)


def _source(tensors: Sequence[MatchedTensor], wrong: int) -> int:
    """The index of the first wrong result of a module without weights from which a wrong tensor is computed.

    The code that computes the tensor calls this module, or the module returns the tensor itself.
    """
    tensor = tensors[wrong].tensor
    call = max((each.tensor.call for each in tensors[:wrong] if each.tensor.module == tensor.computed_by), default=0)
    results = (
        index
        for index, each in enumerate(tensors[:wrong])
        if each.value is None
        and not each.weights
        and each.tensor.is_result
        and (
            (each.tensor.call > call and each.tensor.module.rpartition(".")[0] == tensor.computed_by)
            or np.array_equal(each.tensor.array, tensor.array)
        )
    )
    return next(results, wrong)
