"""The pass that simplifies attention masks: torch gathers every element of a mask and combines it with True."""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes.nodes import (
    attribute,
    constant_array,
    insert_node,
    int_constant,
    integers,
    is_last_axis,
    other_operand,
    producer,
    replace_value,
    scalar,
    shape_of,
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
        if mask is None or mask.shape is None or output.shape is None:
            continue
        if shape_of(mask) == shape_of(output) and None not in shape_of(mask):
            replace_value(output, mask)
    return model


def _unchanged_mask(node: Any) -> Any:
    """The value that a node outputs unchanged if the shape of its output is the same; else None."""
    if node.domain or node.outputs[0].is_graph_output():
        return None
    if node.op_type == "Expand":
        return node.inputs[0]
    if node.op_type == "And":
        return next((other_operand(node, value) for value in node.inputs if _is_true(value)), None)
    return _gathered_tensor(node) if node.op_type == "GatherND" else None


def _is_true(value: Any) -> bool:
    """Whether a value is a constant of one element, True."""
    array = constant_array(value)
    return array is not None and array.size == 1 and array.dtype == bool and bool(array.all())


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
    return insert_node(gather, "Unsqueeze", [tensor, new_axes], [(output, shape)]).outputs[0]


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
