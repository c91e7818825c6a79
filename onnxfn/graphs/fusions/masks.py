"""The masks of attention: the pass that simplifies them, and the form that ONNX Runtime's kernel of Attention reads."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes.nodes import (
    attribute,
    constant_array,
    filled_constant,
    first_input,
    insert_value,
    int_constant,
    integers,
    is_last_axis,
    other_operand,
    producer,
    replace_value,
    scalar,
    shape_of,
    size_tensor,
    sole_consumer,
)


def simplify_masks(model: Any) -> Any:
    """Removes the nodes that do not change a mask.

    Before: a graph of opset 23 or later gathers all elements of a mask in their order, expands a mask to its own shape,
    or combines it with True by And.
    After: the mask itself is read. A mask `[batch, keys]` whose elements are all gathered is unsqueezed to
    `[batch, 1, 1, keys]`.
    """
    for node in list(model.graph):
        mask, output = _unchanged_mask(node), node.outputs[0]
        is_known = mask is not None and mask.shape is not None and None not in shape_of(mask)
        if is_known and output.shape is not None and shape_of(mask) == shape_of(output):
            replace_value(output, mask)
    return model


def _unchanged_mask(node: Any) -> Any:
    """The value that a node outputs unchanged if the shape of its output is the same; else None."""
    if node.domain or node.outputs[0].is_graph_output():
        return None
    if node.op_type == "Expand":
        return node.inputs[0]
    if node.op_type == "And":
        constants = [(value, constant_array(value)) for value in node.inputs]
        is_true = [value for value, array in constants if array is not None and array.size == 1 and array.all()]
        return other_operand(node, is_true[0]) if is_true else None
    return _gathered_tensor(node) if node.op_type == "GatherND" else None


def _gathered_tensor(gather: Any) -> Any:
    """The tensor that a GatherND reads at every index, in order, unsqueezed to the axes of the output; else None."""
    tensor, output = gather.inputs[0], gather.outputs[0]
    indices, rank = producer(gather.inputs[1], "Concat"), len(shape_of(output))
    if indices is None or attribute(gather, "batch_dims", 0) or not is_last_axis(attribute(indices, "axis"), rank + 1):
        return None
    if len(indices.inputs) != len(shape_of(tensor)):
        return None
    # The axis of the output along which the indices of each axis of the tensor count.
    axes = [_counting_axis(part, size, rank) for part, size in zip(indices.inputs, shape_of(tensor), strict=True)]
    sizes = {axis: size for axis, size in zip(axes, shape_of(tensor), strict=True) if axis is not None}
    shape = tuple(sizes.get(axis, 1) for axis in range(rank))
    if shape != shape_of(output) or list(sizes) != sorted(sizes) or len(sizes) != len(axes):
        return None
    new_axes = int_constant(gather.graph, *(axis for axis in range(rank) if axis not in sizes))
    return insert_value(gather, "Unsqueeze", [tensor, new_axes], output, shape)


def _counting_axis(indices: Any, size: Any, rank: int) -> int | None:
    """The axis along which indices `[..., 1]` are 0, 1, ..., size - 1, and the same along all others; else None."""
    unsqueeze = producer(indices, "Unsqueeze")
    if unsqueeze is None or size is None or integers(unsqueeze.inputs[1]) not in ((-1,), (rank,)):
        return None
    expand = producer(unsqueeze.inputs[0], "Expand")
    value = unsqueeze.inputs[0] if expand is None else expand.inputs[0]
    shape = shape_of(value)
    axes = [axis for axis, length in enumerate(shape) if length != 1]
    if len(shape) != rank or [shape[axis] for axis in axes] != [size]:
        return None
    return axes[0] if _is_range(value, size) else None


def _is_range(value: Any, size: Any) -> bool:
    """Whether a value is `Range(0, size, 1)`, with any number of axes inserted."""
    while (unsqueeze := producer(value, "Unsqueeze")) is not None:
        value = unsqueeze.inputs[0]
    node = producer(value, "Range")
    starts_at_zero = node is not None and scalar(node.inputs[0]) == 0 and scalar(node.inputs[2]) == 1
    return starts_at_zero and shape_of(value) == (size,)


RANKS = (2, 4)
"""The numbers of axes that a mask may have: `[queries, keys]` and `[batch, heads, queries, keys]`."""


def fits_kernel(masks: tuple[Any, ...]) -> bool:
    """Whether the kernel can read the sum of these masks."""
    ranks = {len(shape_of(mask)) for mask in masks}
    if len(ranks) > 1 or not ranks.issubset(RANKS):
        return False
    # The kernel does not broadcast the last axis: its size is known and is not 1.
    return all(mask.dtype is not None and shape_of(mask)[-1] not in (1, None) for mask in masks)


def zeroed_rows(masks: tuple[Any, ...], output: Any) -> tuple[Any, Any] | None:
    """The boolean mask, and the output after queries that see no key are set to zero; None if they are not."""
    # The pattern is PyTorch's: the mask that is added is `Where(boolean, 0, lowest)`, and the output of the attention
    # is multiplied by `ReduceMax(boolean)`.
    where = producer(masks[0], "Where") if len(masks) == 1 else None
    product = sole_consumer(output, "Mul")
    if where is None or product is None or scalar(where.inputs[1]) != 0:
        return None
    any_key = producer(other_operand(product, output), "ReduceMax")
    cast = producer(first_input(any_key), "Cast")
    boolean = where.inputs[0]
    fits = cast is not None and cast.inputs[0] is boolean and len(shape_of(boolean)) in RANKS
    return (boolean, product.outputs[0]) if fits else None


def attention_mask(last: Any, query: Any, boolean: Any, added: tuple[Any, ...]) -> Any:
    """The mask of an attention as one tensor, with the lengths of queries and keys; None without a mask.

    New nodes are inserted before `last`. With a boolean mask `added`, the masks that are added to the scores, is
    ignored.
    """
    if boolean is not None:
        return _per_query(last, boolean, query)
    if not added:
        return None
    total = added[0]
    for mask in added[1:]:
        sizes = [b if a == 1 else a for a, b in zip(shape_of(total), shape_of(mask), strict=True)]
        total = insert_value(last, "Add", [total, mask], total, sizes)
    return _per_query(last, _halved_lowest(last, total), query)


def _halved_lowest(last: Any, mask: Any) -> Any:
    """A mask with half of the lowest number of its dtype where it has the lowest; minus infinity stays."""
    import onnx_ir

    lowest = filled_constant(last.graph, mask.dtype.min, [], mask.dtype)
    half = filled_constant(last.graph, mask.dtype.min / 2, [], mask.dtype)
    is_lowest = insert_value(last, "Equal", [mask, lowest], onnx_ir.DataType.BOOL, mask.shape)
    return insert_value(last, "Where", [is_lowest, half, mask], mask, mask.shape)


def _per_query(last: Any, mask: Any, query: Any) -> Any:
    """A mask that is the same for all queries, expanded to their length: the kernel does not broadcast this axis."""
    length = shape_of(query)[2]
    if length is not None and shape_of(mask)[-2] == length:
        return mask
    size, rank, unit = size_tensor(last, length, (query, 2)), len(shape_of(mask)), int_constant(last.graph, 1)
    sizes = insert_value(last, "Concat", [*[unit] * (rank - 2), size, unit], unit, (rank,), axis=0)
    return insert_value(last, "Expand", [mask, sizes], mask, (*shape_of(mask)[:-2], length, shape_of(mask)[-1]))
