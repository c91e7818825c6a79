"""Attention as one operator, or about ten nodes below opset 23; products of grouped heads; masks."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.graphs.nodes.nodes import (
    attribute,
    compute_by,
    constant_array,
    filled_constant,
    first_input,
    insert_node,
    insert_value,
    int_constant,
    integers,
    is_last_axis,
    is_operator,
    other_operand,
    producer,
    replace_value,
    scalar,
    shape_of,
    size_tensor,
    sole_consumer,
    unscaled,
)

RANK = 4


@frozen(eq=False)
class Scores:
    """The attention scores before the softmax: `softcap(query @ transpose(key) * scale) + masks`.

    `query`: `[batch, heads, length, size]`. `key`: `[batch, heads, keys, size]`. `transpose`: the node of the keys.
    `softcap`: the bound of the tanh, 0.0 if there is none.
    """

    query: Any
    key: Any
    transpose: Any
    scale: float
    softcap: float
    masks: tuple[Any, ...] = ()


def fuse_attention(model: Any) -> Any:
    """Fuses attention into one operator.

    Before: a graph of opset 23 or later computes `softmax(q @ k * scale + mask) @ v` in several nodes.
    After: it is one Attention. Where the graph allows it, the operator reads the keys and values before they are
    repeated for groups of heads, and joins them to the past itself.

    A query from which a boolean mask hides all keys gives zero, as in PyTorch. An additive mask hides keys by the
    lowest number of its dtype; it gets half of it, so that ONNX Runtime, too, gives the mean where all are hidden.
    """
    position = {node: index for index, node in enumerate(model.graph)}
    for node in list(position):
        for product in _products(node) if is_operator(node, "Softmax") else ():
            _fuse(node, product, position)
    return model


def _products(softmax: Any) -> list[Any]:
    """The products of a softmax with values: several if attentions differ only in their values; [] for other uses."""
    weights = softmax.outputs[0]
    nodes = [use.node for use in weights.uses()]
    if weights.is_graph_output() or not is_last_axis(attribute(softmax, "axis", -1), RANK):
        return []
    return nodes if all(node.op_type == "MatMul" and node.inputs[0] is weights for node in nodes) else []


def _has_heads(value: Any) -> bool:
    """Whether a value has four axes, and integers for the number of heads and their size."""
    sizes = shape_of(value)
    return len(sizes) == RANK and isinstance(sizes[1], int) and isinstance(sizes[3], int)


def _masked_scores(value: Any) -> Scores | None:
    """Scores with the masks that are added to them."""
    node = producer(value, "Add")
    if node is None:
        return _capped_scores(value)
    for operand in node.inputs:
        scores = _masked_scores(operand) if len(shape_of(operand)) == RANK else None
        if scores is not None:
            return evolve(scores, masks=(*scores.masks, other_operand(node, operand)))
    return None


def _capped_scores(value: Any) -> Scores | None:
    """Scores with or without a softcap, `tanh(scores / cap) * cap`."""
    operand, cap = unscaled(value)
    tanh = producer(operand, "Tanh")
    if tanh is None:
        return _scaled_scores(value, 0.0)
    scores = _scaled_scores(tanh.inputs[0], cap)
    return None if scores is None else evolve(scores, scale=scores.scale * cap)


def _scaled_scores(value: Any, softcap: float) -> Scores | None:
    """Scores as a product of queries and transposed keys, each of which may be scaled."""
    operand, scale = unscaled(value)
    node = producer(operand, "MatMul")
    if node is None:
        return None
    (query, query_scale), (key, key_scale) = map(unscaled, node.inputs)
    scale *= query_scale * key_scale
    transpose = producer(key, "Transpose")
    if transpose is None or scale <= 0 or len(shape_of(key)) != RANK or len(attribute(transpose, "perm", ())) != RANK:
        return None
    return Scores(query, _untransposed(transpose), transpose, scale, softcap)


def _untransposed(transpose: Any) -> Any:
    """The keys with their last two axes swapped back: the input of the Transpose, or a new Transpose of it."""
    *first, size, length = attribute(transpose, "perm")
    perm, (batch, heads, last, keys) = (*first, length, size), shape_of(transpose.outputs[0])
    if perm == (0, 1, 2, 3):
        return transpose.inputs[0]
    output, sizes = transpose.outputs[0], (batch, heads, keys, last)
    return insert_value(transpose, "Transpose", [transpose.inputs[0]], output, sizes, perm=perm)


# The replacement


def _fuse(softmax: Any, product: Any, position: Mapping[Any, int]) -> None:
    """Fuses the attention of a softmax and its product with values, if the operator computes the same."""
    scores, values, output = _masked_scores(softmax.inputs[0]), product.inputs[1], product.outputs[0]
    if scores is None or not all(_has_heads(tensor) for tensor in (scores.query, scores.key, values, output)):
        return
    if shape_of(scores.key)[1] != shape_of(values)[1] or not fits_kernel(scores.masks):
        return
    zeroed: Any = zeroed_rows(scores.masks, output)
    visible, output = zeroed if zeroed is not None and _has_heads(zeroed[1]) else (None, output)
    heads, last = shape_of(scores.query)[1], output.producer()
    (key, key_node), (value, value_node) = _ungrouped(scores.key, heads), _ungrouped(values, heads)
    if shape_of(key)[1] != shape_of(value)[1]:  # the operator has one number of heads for both
        key, value, key_node, value_node = scores.key, values, None, None
    cache = _cache(key, value, position, {last, product, scores.transpose, key_node, value_node})
    mask = attention_mask(last, scores.query, visible, scores.masks)
    past_key, new_key, past_value, new_value = cache or (None, key, None, value)
    inputs = [scores.query, new_key, new_value, mask, past_key, past_value]
    while inputs[-1] is None:
        inputs.pop()
    outputs = [output, *((key, value) if cache else ())]
    like = [(tensor, tensor.shape) for tensor in outputs]
    node = insert_node(last, "Attention", inputs, like, scale=scores.scale, softcap=scores.softcap)
    for old, new in zip(outputs, node.outputs, strict=True):
        replace_value(old, new)


def _ungrouped(repeated: Any, heads: int) -> tuple[Any, Any]:
    """Keys or values before each head is repeated for a group of queries, and the first node of that, or None."""
    expand = producer(first_input(producer(repeated, "Reshape")), "Expand")
    unsqueeze = producer(first_input(expand), "Unsqueeze")
    if unsqueeze is None or integers(unsqueeze.inputs[1]) != (2,) or not _has_heads(unsqueeze.inputs[0]):
        return repeated, None
    groups, sizes = shape_of(unsqueeze.inputs[0])[1], shape_of(expand.outputs[0])
    if groups == 0 or len(sizes) != RANK + 1:
        return repeated, None
    fits = sizes[1:3] == (groups, heads // groups) and shape_of(repeated)[1:2] == (heads,)
    return (unsqueeze.inputs[0], unsqueeze) if fits else (repeated, None)


def multiply_groups(model: Any) -> Any:
    """Multiplies by keys and values before they are repeated for groups of heads: the copies are not written.

    Before: `left @ repeated`, where `left` is `[batch, heads, rows, size]`, and the right has less heads, repeated.
    After: the rows of a group of heads are rows of one matrix, and the product has the shape of before.
    """
    for node in [node for node in model.graph if is_operator(node, "MatMul")]:
        left, right = node.inputs
        transpose = producer(right, "Transpose")
        swaps = transpose is not None and tuple(attribute(transpose, "perm", ())) == (0, 1, 3, 2)
        heads = shape_of(left)[1] if len(shape_of(left)) == RANK else None
        if isinstance(heads, int):
            before, first = _ungrouped(transpose.inputs[0] if swaps else right, heads)
            if first is not None:
                _multiply_group(node, left, before, swaps=swaps)
    return model


def _multiply_group(product: Any, left: Any, before: Any, *, swaps: bool) -> None:
    """Computes a product from the matrix before its heads are repeated; `swaps`: its last two axes are swapped."""
    batch, groups, length, size = shape_of(before)
    if swaps:
        before = insert_value(product, "Transpose", [before], before, (batch, groups, size, length), perm=(0, 1, 3, 2))
    (_, heads, _, inner), output, graph = shape_of(left), product.outputs[0], product.graph
    scaled, sizes = producer(left, "Mul"), (batch, groups, None, inner)
    factor = scaled.inputs[1] if scaled is not None and scalar(scaled.inputs[1]) is not None else None
    rows = left if factor is None else scaled.inputs[0]
    rows = insert_value(product, "Reshape", [rows, int_constant(graph, 0, groups, -1, 0)], left, sizes)
    if factor is not None:  # next to the product, where ONNX Runtime makes the factor a part of it
        rows = insert_value(product, "Mul", [rows, factor], left, sizes)
    last = shape_of(output)[-1] if output.shape else None
    rows = insert_value(product, "MatMul", [rows, before], output, (batch, groups, None, last))
    compute_by(output, "Reshape", [rows, int_constant(graph, 0, heads, -1, 0)])


def _cache(key: Any, value: Any, position: Mapping[Any, int], own_nodes: set[Any]) -> tuple[Any, ...] | None:
    """The past and new keys, the past and new values, if they are joined only for this attention; else None."""
    past_key, new_key = _joined(key)
    past_value, new_value = _joined(value)
    lengths = [shape_of(part)[2:3] for part in (past_key, new_key, past_value, new_value)]
    if past_key is None or past_value is None or lengths[:2] != lengths[2:]:
        return None
    # The mask of doge is computed from the joined values.
    start = max(position.get(node, -1) for node in own_nodes)
    earlier = (use.node for joined in (key, value) for use in joined.uses() if position.get(use.node, start) < start)
    return (past_key, new_key, past_value, new_value) if own_nodes.issuperset(earlier) else None


def _joined(value: Any) -> Sequence[Any]:
    """The two tensors whose Concat along the length computes a value; None twice for another value."""
    node = producer(value, "Concat")
    if node is None or len(node.inputs) != 2 or attribute(node, "axis") not in (-2, 2):  # noqa: PLR2004
        return None, None
    return node.inputs if all(len(shape_of(part)) == RANK for part in node.inputs) else (None, None)


def simplify_masks(model: Any) -> Any:
    """Removes the nodes that do not change a mask.

    They gather all elements of a mask in their order, expand it to its own shape, or combine it with True by And. A
    mask `[batch, keys]` whose elements are all gathered is unsqueezed to `[batch, 1, 1, keys]`.
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
    if _is_every_index(constant_array(gather.inputs[1]), shape_of(tensor)):
        return insert_value(
            gather, "Reshape", [tensor, int_constant(gather.graph, *shape_of(output))], output, output.shape
        )
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


def _is_every_index(indices: Any, sizes: tuple[Any, ...]) -> bool:
    """Whether constant indices are those of all elements of a tensor of these sizes, in order."""
    if indices is None or not all(isinstance(size, int) for size in sizes) or indices.size != prod(sizes) * len(sizes):
        return False
    return bool((indices.reshape(-1, len(sizes)) == np.indices(sizes).reshape(len(sizes), -1).T).all())


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
    """Whether a value is `Range(0, size, 1)`, or these numbers as a constant, with any number of axes inserted."""
    if (array := constant_array(value)) is not None and array.size == size:
        return bool((array.ravel() == np.arange(size)).all())
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
    """The mask, and the output after queries that see no key are set to zero; None if they are not."""
    # As translated: the output is multiplied by `ReduceMax(boolean)`, and `Where(boolean, 0, lowest)` is added to the
    # scores, or the output by `Where(hidden, 0, 1)`, and `Where(hidden, 0, mask)` is added.
    where = producer(masks[0], "Where") if len(masks) == 1 else None
    product = sole_consumer(output, "Mul")
    if where is None or product is None or scalar(where.inputs[1]) != 0:
        return None
    factor = producer(other_operand(product, output), "ReduceMax", "Where")
    condition, _, mask = where.inputs
    if factor is not None and factor.op_type == "Where":
        is_lowest = producer(condition, "Equal") is not None and scalar(condition.producer().inputs[1]) == -np.inf
        is_largest = first_input(producer(first_input(condition.producer()), "ReduceMax")) is mask
        fits = is_lowest and is_largest and factor.inputs[0] is condition and scalar(factor.inputs[2]) == 1
        return (mask, product.outputs[0]) if fits else None
    cast = producer(first_input(factor), "Cast")
    fits = cast is not None and cast.inputs[0] is condition and len(shape_of(condition)) in RANKS
    return (condition, product.outputs[0]) if fits else None


def attention_mask(last: Any, query: Any, zeroed: Any, added: tuple[Any, ...]) -> Any:
    """The mask of an attention as one tensor, with the lengths of queries and keys; None without a mask."""
    if zeroed is not None and not zeroed.dtype.is_floating_point():
        return _per_query(last, zeroed, query)
    if not added:
        return None
    total, *others = added if zeroed is None else [zeroed]
    for mask in others:
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
