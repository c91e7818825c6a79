"""The pass that fuses attention: below opset 23 it is about ten nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from onnxfn.graphs.fusions.masks import attention_mask, fits_kernel, zeroed_rows
from onnxfn.graphs.nodes.nodes import (
    attribute,
    first_input,
    insert_node,
    insert_value,
    integers,
    is_last_axis,
    is_operator,
    other_operand,
    producer,
    replace_value,
    shape_of,
    unscaled,
)

RANK = 4


@frozen(eq=False)
class Scores:
    """The attention scores before the softmax: `softcap(query @ transpose(key) * scale) + masks`.

    `query`: `[batch, heads, length, size]`. `key`: `[batch, heads, keys, size]`. `transpose`: the node that transposes
    the keys. `softcap`: the bound of the tanh, 0.0 if there is none.
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

    A boolean mask may hide all keys from a query. The output of such a query is zero, as in PyTorch. An additive mask
    hides a key by the lowest number of its dtype. Where it hides all keys, PyTorch returns the mean of the values, and
    ONNX Runtime returns zero. With half of that number ONNX Runtime returns the mean, too: the mask is changed to it.
    """
    position = {node: index for index, node in enumerate(model.graph)}
    for node in list(position):
        for product in _products(node) if is_operator(node, "Softmax") else ():
            _fuse(node, product, position)
    return model


# The pattern


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
    boolean, output = zeroed if zeroed is not None and _has_heads(zeroed[1]) else (None, output)
    heads, last = shape_of(scores.query)[1], output.producer()
    (key, key_node), (value, value_node) = _ungrouped(scores.key, heads), _ungrouped(values, heads)
    if shape_of(key)[1] != shape_of(value)[1]:  # the operator has one number of heads for both
        key, value, key_node, value_node = scores.key, values, None, None
    cache = _cache(key, value, position, {last, product, scores.transpose, key_node, value_node})
    mask = attention_mask(last, scores.query, boolean, scores.masks)
    attributes = {"scale": scores.scale, **({"softcap": scores.softcap} if scores.softcap else {})}
    past_key, new_key, past_value, new_value = cache or (None, key, None, value)
    inputs = [scores.query, new_key, new_value, mask, past_key, past_value]
    while inputs[-1] is None:
        inputs.pop()
    outputs = [output, *((key, value) if cache else ())]
    node = insert_node(last, "Attention", inputs, [(tensor, tensor.shape) for tensor in outputs], **attributes)
    for old, new in zip(outputs, node.outputs, strict=True):
        replace_value(old, new)


def _ungrouped(repeated: Any, heads: int) -> tuple[Any, Any]:
    """Keys or values before each head is repeated for a group of queries, and the first node of that, or None."""
    reshape = producer(repeated, "Reshape")
    expand = producer(first_input(reshape), "Expand")
    unsqueeze = producer(first_input(expand), "Unsqueeze")
    if unsqueeze is None or integers(unsqueeze.inputs[1]) != (2,) or not _has_heads(unsqueeze.inputs[0]):
        return repeated, None
    groups, sizes = shape_of(unsqueeze.inputs[0])[1], shape_of(expand.outputs[0])
    if groups == 0 or len(sizes) != RANK + 1:
        return repeated, None
    fits = sizes[1:3] == (groups, heads // groups) and shape_of(repeated)[1] == heads
    return (unsqueeze.inputs[0], unsqueeze) if fits else (repeated, None)


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
