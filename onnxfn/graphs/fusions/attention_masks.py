"""The masks of attention in the form that ONNX Runtime's kernel of Attention reads."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes.nodes import (
    filled_constant,
    first_input,
    insert_node,
    int_constant,
    other_operand,
    producer,
    scalar,
    shape_of,
    size_tensor,
    sole_consumer,
)

RANKS = (2, 4)
"""The numbers of axes that a mask may have: `[queries, keys]` and `[batch, heads, queries, keys]`."""


def fits_kernel(masks: tuple[Any, ...]) -> bool:
    """Whether the kernel can read the sum of these masks.

    All have two axes, or all have four. The kernel does not broadcast the last axis: its size is known and is not 1.
    """
    ranks = {len(shape_of(mask)) for mask in masks}
    if len(ranks) > 1 or not ranks.issubset(RANKS):
        return False
    return all(mask.dtype is not None and shape_of(mask)[-1] not in (1, None) for mask in masks)


def zeroed_rows(masks: tuple[Any, ...], output: Any) -> tuple[Any, Any] | None:
    """The boolean mask, and the output after queries that see no key are set to zero; None if they are not.

    The pattern is PyTorch's: the mask that is added is `Where(boolean, 0, lowest)`, and the output of the attention is
    multiplied by `ReduceMax(boolean)`.
    """
    where = producer(masks[0], "Where") if len(masks) == 1 else None
    product = sole_consumer(output, "Mul")
    if where is None or product is None or scalar(where.inputs[1]) != 0:
        return None
    any_key = producer(other_operand(product, output), "ReduceMax")
    cast = producer(first_input(any_key), "Cast")
    boolean = where.inputs[0]
    fits = cast is not None and cast.inputs[0] is boolean and len(shape_of(boolean)) in RANKS
    return (boolean, product.outputs[0]) if fits else None


def attention_mask(last: Any, query: Any, boolean: Any, added: tuple[Any, ...], known: dict[Any, Any]) -> Any:
    """The mask of an attention as one tensor, with the lengths of queries and keys; None without a mask.

    New nodes are inserted before `last`. With a boolean mask `added`, the masks that are added to the scores, is
    ignored. `known`: the tensors of earlier attentions; new ones are added.
    """
    if boolean is not None:
        return _per_query(last, boolean, query, known)
    if not added:
        return None
    total = added[0]
    for mask in added[1:]:
        key = (total, mask)
        if key not in known:
            sizes = [b if a == 1 else a for a, b in zip(shape_of(total), shape_of(mask), strict=True)]
            known[key] = insert_node(last, "Add", [total, mask], [(total, sizes)]).outputs[0]
        total = known[key]
    if total not in known:
        known[total] = _halved_lowest(last, total)
    return _per_query(last, known[total], query, known)


def _halved_lowest(last: Any, mask: Any) -> Any:
    """A mask with half of the lowest number of its dtype where it has the lowest; minus infinity stays."""
    import onnx_ir

    lowest = filled_constant(last.graph, mask.dtype.min, [], mask.dtype)
    half = filled_constant(last.graph, mask.dtype.min / 2, [], mask.dtype)
    is_lowest = insert_node(last, "Equal", [mask, lowest], [(onnx_ir.DataType.BOOL, mask.shape)]).outputs[0]
    return insert_node(last, "Where", [is_lowest, half, mask], [(mask, mask.shape)]).outputs[0]


def _per_query(last: Any, mask: Any, query: Any, known: dict[Any, Any]) -> Any:
    """A mask that is the same for all queries, expanded to their length: the kernel does not broadcast this axis."""
    length = shape_of(query)[2]
    if length is not None and shape_of(mask)[-2] == length:
        return mask
    key = (mask, query if length is None else length)
    if key not in known:
        size, rank = size_tensor(last, length, (query, 2)), len(shape_of(mask))
        like, unit = int_constant(last.graph, 0), int_constant(last.graph, 1)
        sizes = insert_node(last, "Concat", [*[unit] * (rank - 2), size, unit], [(like, (rank,))], axis=0)
        shape = (*shape_of(mask)[:-2], length, shape_of(mask)[-1])
        known[key] = insert_node(last, "Expand", [mask, sizes.outputs[0]], [(mask, shape)]).outputs[0]
    return known[key]
