"""How the elements of a tensor lie in memory, and the strides of a view, by the factors of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from onnxfn.graphs.sizes.size_factors import ONE, factors, product, stride_factors

Sizes = Sequence[Any]
"""Numbers, or formulas of dynamic sizes."""


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """The axes of a dense tensor, from the one with the largest stride on; None if it is not seen to be dense.

    A tensor that was transposed to channels last has `(0, 2, 3, 1)`. An axis of size 1 keeps its place in the shape, in
    which it means nothing.
    """
    strides = dict(enumerate(map(stride_factors, tensor.stride())))
    step, inner = ONE, []
    for _ in range(tensor.dim()):
        fits = [axis for axis in strides if strides[axis] == step or is_one(tensor.shape[axis])]
        if not fits:
            return None
        inner.append(max(fits))
        step = step * factors(tensor.shape[inner[-1]])
        del strides[inner[-1]]
    return tuple(reversed(inner))


def strides_in_order(sizes: Sizes, order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of a dense tensor whose axes lie in this order in memory.

    >>> strides_in_order((2, 3, 4, 5), (0, 2, 3, 1))
    (60, 1, 15, 3)
    """
    strides: dict[int, Any] = {}
    step: Any = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * sizes[axis]
    return tuple(strides[axis] for axis in range(len(sizes)))


def view_layout(tensor: Any, shape: Sizes) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The sizes and strides of a view of a tensor; None if the factors do not show that there is one.

    The axes of both shapes are taken in groups of equal products. The axes of a group must lie next to each other.
    """
    sizes = _without_minus_one(tensor.shape, shape)
    if sizes is None:
        return None
    groups = _groups(tensor.shape, sizes)
    if groups is None:
        return None
    strides: list[Any] = []
    for old, new in groups:
        stride = _merged_stride(tensor, old)
        if stride is None:
            return None
        strides += [each * stride for each in strides_in_order([sizes[axis] for axis in new], range(len(new)))]
    return sizes, tuple(strides)


def is_one(size: Any) -> bool:
    """Whether a size is the number 1."""
    return type(size) is int and size == 1


def _without_minus_one(sizes: Sizes, shape: Sizes) -> tuple[Any, ...] | None:
    """A shape in which the size that is left takes the place of -1; None if the factors do not show it."""
    if not any(type(size) is int and size == -1 for size in shape):
        return tuple(shape) if product(sizes) == product(shape) else None
    unknown = next(axis for axis, size in enumerate(shape) if type(size) is int and size == -1)
    left = _left(sizes, (*shape[:unknown], *shape[unknown + 1 :]))
    return None if left is None else (*shape[:unknown], left, *shape[unknown + 1 :])


def _left(sizes: Sizes, known: Sizes) -> Any:
    """The product of `sizes` divided by that of the known ones; None if the factors do not show it."""
    left = product(sizes).without(product(known))
    if left is None or not left.powers:
        return None if left is None else left.number
    others = [factors(size).powers for size in known if factors(size).powers]
    symbolic = [size for size in sizes if factors(size).powers]
    for other in others:
        equal = next((index for index, size in enumerate(symbolic) if factors(size).powers == other), None)
        if equal is None:
            return prod(sizes) // prod(known)  # by factors, see `size_quotients.py`
        del symbolic[equal]
    number = prod(factors(size).number for size in symbolic)
    return None if left.number % number else prod(symbolic, start=left.number // number)


def _groups(old: Sizes, new: Sizes) -> list[tuple[range, range]] | None:
    """The axes of two shapes in groups of equal products, the smallest there are; None if the factors show none."""
    groups: list[tuple[range, range]] = []
    first, second = 0, 0
    while first < len(old) or second < len(new):
        ends = _group_ends(old, new, first, second)
        if ends is None:
            return None
        groups.append((range(first, ends[0]), range(second, ends[1])))
        first, second = ends
    return groups


def _group_ends(old: Sizes, new: Sizes, first: int, second: int) -> tuple[int, int] | None:
    """Where the groups that begin with these axes end."""
    ends = min(first + 1, len(old)), min(second + 1, len(new))
    while (products := (product(old[first : ends[0]]), product(new[second : ends[1]])))[0] != products[1]:
        if ends[1] < len(new) and products[0].without(products[1]) is not None:
            ends = ends[0], ends[1] + 1
        elif ends[0] < len(old) and products[1].without(products[0]) is not None:
            ends = ends[0] + 1, ends[1]
        else:
            return None
    return ends


def _merged_stride(tensor: Any, axes: Sequence[int]) -> Any:
    """The stride of axes that lie next to each other as one axis; None if they do not."""
    pairs = [(tensor.shape[axis], tensor.stride(axis)) for axis in axes if not is_one(tensor.shape[axis])]
    for (_, outer), (size, inner) in pairwise(pairs):
        if stride_factors(outer) != stride_factors(inner) * factors(size):
            return None
    return pairs[-1][1] if pairs else 1
