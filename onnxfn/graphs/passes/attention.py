"""The pass that finds attention, which is said in some ten nodes below opset 23."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from onnxfn.graphs.passes.nodes import (
    attribute,
    beside,
    dims,
    filled_with,
    instead,
    laid,
    made,
    maker,
    number,
    numbers,
    permuted,
    reader,
    size_of,
    whole,
)

SWAPPED = (0, 2, 1, 3)
"""Heads before length, and back."""

RANK = 4


@frozen(eq=False)
class Scores:
    """Where the scores before a softmax come from: queries, keys, the node that turns them, what is done then."""

    query: Any
    key: Any
    turned: Any
    scale: float
    softcap: float
    masks: tuple[Any, ...] = ()


@frozen(eq=False)
class Found:
    """An attention that was found: what it reads, and the value that it makes."""

    scores: Scores
    value: Any
    mask: Any
    given: Any


def attended(model: Any) -> Any:
    """Before: a graph of opset 23 or later. After: `softmax(q @ k * scale + mask) @ v` is one Attention.

    Keys and values that are shared by several heads are not repeated, a past is not joined to them before, and heads
    are not moved about where the graph's own order can be read as it is.

    A boolean mask says which keys count, and a query that may look at none gets zero, as with PyTorch. A mask of
    numbers is added: there PyTorch gives such a query the mean of all values, and ONNX Runtime zero when the numbers
    are the lowest of all, so those are made half as low, which is as good as minus infinity and yet not taken for it.
    """
    order = {node: place for place, node in enumerate(model.graph)}
    masks: dict[Any, Any] = {}
    for node in list(order):
        for total in _totals(node) if node.op_type == "Softmax" else ():
            found = _attention(node, total)
            if found is not None:
                _replace(found, masks, order)
    return model


def _totals(softmax: Any) -> list[Any]:
    """The products of a softmax with values: one, or several where attentions differ in their values alone."""
    weights = softmax.outputs[0]
    nodes = [use.node for use in weights.uses()]
    alone = not weights.is_graph_output() and attribute(softmax, "axis", -1) in (-1, RANK - 1)
    products = all(node.op_type == "MatMul" and node.inputs[0] is weights for node in nodes)
    return nodes if alone and products else []


def _attention(softmax: Any, total: Any) -> Found | None:
    scores = _added(softmax.inputs[0])
    value, given = total.inputs[1], total.outputs[0]
    if scores is None or not all(_headed(one) for one in (scores.query, scores.key, value, given)):
        return None
    if not _kernel_takes(scores.masks):
        return None
    zeroed = _zeroed(scores.masks, given)
    if zeroed is not None:
        return Found(scores, value, *zeroed)
    return Found(scores, value, scores.masks, given)


def _kernel_takes(masks: tuple[Any, ...]) -> bool:
    """Whether masks are all of two axes or all of four, each with a number a key, which is not broadcast."""
    return len({len(dims(one)) for one in masks} - {2, RANK}) == 0 and all(
        len(dims(one)) == len(dims(masks[0])) and dims(one)[-1] not in (1, None) for one in masks
    )


def _headed(value: Any) -> bool:
    """Whether a value is `[batch, heads, length, size]` with a known number of heads, and size."""
    sizes = dims(value)
    return len(sizes) == RANK and isinstance(sizes[1], int) and isinstance(sizes[3], int)


def _added(value: Any) -> Scores | None:
    """Scores with what is added to them."""
    node = maker(value, "Add")
    if node is None:
        return _capped(value)
    for inner, mask in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        found = _added(inner) if len(dims(inner)) == RANK else None
        if found is not None:
            return evolve(found, masks=(*found.masks, mask))
    return None


def _capped(value: Any) -> Scores | None:
    """Scores that go through `tanh(x / cap) * cap`, or not."""
    inner, cap = _scaled(value)
    tanh = maker(inner, "Tanh")
    if tanh is None:
        return _multiplied(value, 0.0)
    found = _multiplied(tanh.inputs[0], cap)
    return None if found is None else evolve(found, scale=found.scale * cap)


def _multiplied(value: Any, cap: float) -> Scores | None:
    inner, scale = _scaled(value)
    node = maker(inner, "MatMul")
    if node is None:
        return None
    (query, of_query), (key, of_key) = _scaled(node.inputs[0]), _scaled(node.inputs[1])
    scale *= of_query * of_key
    turned = maker(key, "Transpose")
    if turned is None or scale <= 0 or len(dims(key)) != RANK:
        return None
    return Scores(query, _upright(turned), turned, scale, cap)


def _upright(turned: Any) -> Any:
    """What the last two axes are swapped of, in one step with others or not."""
    *first, size, length = attribute(turned, "perm", ())
    perm, (batch, heads, last, long) = (*first, length, size), dims(turned.outputs[0])
    if perm == (0, 1, 2, 3):
        return turned.inputs[0]
    like = [(turned.outputs[0], (batch, heads, long, last))]
    return made(turned, "Transpose", [turned.inputs[0]], like, perm=perm).outputs[0]


def _scaled(value: Any) -> tuple[Any, float]:
    """A value as another one times a number."""
    node = maker(value, "Mul", "Div")
    if node is None:
        return value, 1.0
    for inner, factor in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        told = number(factor)
        if told is not None and (node.op_type == "Mul" or factor is node.inputs[1]):
            further, before = _scaled(inner)
            return further, before * (told if node.op_type == "Mul" else 1 / told)
    return value, 1.0


def _zeroed(masks: tuple[Any, ...], given: Any) -> tuple[Any, Any] | None:
    """The boolean mask, and what is made, where a query that may look at nothing is set to zero afterwards."""
    chosen = maker(masks[0], "Where") if len(masks) == 1 else None
    product = reader(given, "Mul")
    if chosen is None or product is None or number(chosen.inputs[1]) != 0:
        return None
    sees = maker(beside(product, given), "ReduceMax")
    cast = maker(sees.inputs[0], "Cast") if sees is not None else None
    return (chosen.inputs[0], product.outputs[0]) if cast is not None and cast.inputs[0] is chosen.inputs[0] else None


def _replace(found: Found, masks: dict[Any, Any], order: Mapping[Any, int]) -> None:
    last = found.given.producer()
    heads = dims(found.scores.query)[1]
    (key, lifted_key), (value, lifted_value) = _once(found.scores.key, heads), _once(found.value, heads)
    past = _past(key, value, order, {last, found.scores.turned, lifted_key, lifted_value})
    new_key, new_value = (past[1], past[3]) if past else (key, value)
    mask = _mask(last, found, masks)
    flat = _flat(last, found.scores.query, new_key, new_value, found.given)
    query, new_key, new_value, given = flat or (found.scores.query, new_key, new_value, found.given)
    told: dict[str, Any] = {"scale": found.scores.scale}
    if found.scores.softcap:
        told["softcap"] = found.scores.softcap
    if flat:
        told |= {"q_num_heads": heads, "kv_num_heads": dims(key)[1]}
    inputs = [query, new_key, new_value, mask, *((past[0], past[2]) if past else ())]
    outputs = [given, *((key, value) if past else ())]
    node = made(last, "Attention", _trimmed(inputs), [(one, one.shape) for one in outputs], **told)
    for old, new in zip(outputs, node.outputs, strict=True):
        instead(old, new)


def _trimmed(inputs: list[Any]) -> list[Any]:
    return inputs if inputs[-1] is not None else _trimmed(inputs[:-1])


def _once(repeated: Any, heads: int) -> tuple[Any, Any]:
    """Keys or values before each of their heads is repeated for a group of queries, and the node that begins it."""
    joined = maker(repeated, "Reshape")
    spread: Any = maker(joined.inputs[0], "Expand") if joined is not None else None
    lifted: Any = maker(spread.inputs[0], "Unsqueeze") if spread is not None else None
    if lifted is None or numbers(lifted.inputs[1]) != (2,) or not _headed(lifted.inputs[0]):
        return repeated, None
    groups, sizes = dims(lifted.inputs[0])[1], dims(spread.outputs[0])
    fits = len(sizes) == RANK + 1 and sizes[1:3] == (groups, heads // groups) and dims(repeated)[1] == heads
    return (lifted.inputs[0], lifted) if fits else (repeated, None)


def _past(key: Any, value: Any, order: Mapping[Any, int], own: set[Any]) -> tuple[Any, Any, Any, Any] | None:
    """Past and new keys, past and new values, where they are joined for this attention.

    Nothing but its own nodes may read what is joined before the attention gives it (doge's mask is made of values).
    """
    pairs = [maker(one, "Concat") for one in (key, value)]
    if any(one is None or len(one.inputs) != 2 or attribute(one, "axis") not in (-2, 2) for one in pairs):  # noqa: PLR2004
        return None
    (past_key, new_key), (past_value, new_value) = (one.inputs for one in pairs)
    same = dims(past_key)[2] == dims(past_value)[2] and dims(new_key)[2] == dims(new_value)[2]
    here = max(order.get(node, -1) for node in own)
    early = (use.node for one in (key, value) for use in one.uses() if order.get(use.node, here) < here)
    return (past_key, new_key, past_value, new_value) if same and own.issuperset(early) else None


def _mask(last: Any, found: Found, masks: dict[Any, Any]) -> Any:
    """The mask as the kernel takes it: one tensor, with the lengths of queries and keys as they are."""
    if not isinstance(found.mask, tuple):
        return _spread(last, found.mask, found, masks)
    if not found.mask:
        return None
    total = found.mask[0]
    for one in found.mask[1:]:
        key = (total, one)
        if key not in masks:
            sizes = [b if a == 1 else a for a, b in zip(dims(total), dims(one), strict=True)]
            masks[key] = made(last, "Add", [total, one], [(total, sizes)]).outputs[0]
        total = masks[key]
    if total not in masks:
        masks[total] = _bounded(last, total)
    return _spread(last, masks[total], found, masks)


def _bounded(last: Any, mask: Any) -> Any:
    """A mask of numbers without the lowest of all; minus infinity stays."""
    import onnx_ir

    lowest = filled_with(last.graph, mask.dtype.min, [], mask.dtype)
    half = filled_with(last.graph, mask.dtype.min / 2, [], mask.dtype)
    like = onnx_ir.Value(type=onnx_ir.TensorType(onnx_ir.DataType.BOOL))
    there = made(last, "Equal", [mask, lowest], [(like, mask.shape)]).outputs[0]
    return made(last, "Where", [there, half, mask], [(mask, mask.shape)]).outputs[0]


def _spread(last: Any, mask: Any, found: Found, masks: dict[Any, Any]) -> Any:
    """A mask that is the same for every query, once a query: the kernel does not broadcast there."""
    length = dims(found.scores.query)[2]
    if length is not None and dims(mask)[-2] == length:
        return mask
    key = (mask, found.scores.query if length is None else length)
    if key not in masks:
        size = size_of(last, length, (found.scores.query, 2))
        like = whole(last.graph, 0)
        ones = [whole(last.graph, 1)] * (len(dims(mask)) - 2)
        sizes = made(last, "Concat", [*ones, size, ones[0]], [(like, (len(dims(mask)),))], axis=0).outputs[0]
        shape = (*dims(mask)[:-2], length, dims(mask)[-1])
        masks[key] = made(last, "Expand", [mask, sizes], [(mask, shape)]).outputs[0]
    return masks[key]


def _flat(last: Any, query: Any, key: Any, value: Any, given: Any) -> tuple[Any, Any, Any, Any] | None:
    """All of an attention as `[batch, length, heads * size]`, where the graph has or wants each so."""
    turned = reader(given, "Transpose")
    joined = None
    if turned is not None and tuple(attribute(turned, "perm", ())) == SWAPPED:
        joined = reader(turned.outputs[0], "Reshape")
    _, heads, _, size = dims(given)
    if joined is None or len(dims(joined.outputs[0])) != 3 or dims(joined.outputs[0])[-1] != heads * size:  # noqa: PLR2004
        return None
    if not all(_flattens(one) for one in (query, key, value)):
        return None
    return (*(_flattened(last, one) for one in (query, key, value)), joined.outputs[0])


def _flattens(value: Any) -> bool:
    node = maker(value, "RotaryEmbedding")
    inner = node.inputs[0] if node is not None else value
    return permuted(inner, SWAPPED) is not None and (node is None or not attribute(node, "num_heads"))


def _flattened(last: Any, value: Any) -> Any:
    """`[batch, heads, length, size]` as `[batch, length, heads * size]`."""
    rotary = maker(value, "RotaryEmbedding")
    if rotary is None:
        return laid(last, permuted(value, SWAPPED))
    flat = laid(last, permuted(rotary.inputs[0], SWAPPED))
    told = {name: one.value for name, one in rotary.attributes.items()} | {"num_heads": dims(value)[1]}
    return made(last, "RotaryEmbedding", [flat, *rotary.inputs[1:]], [(flat, flat.shape)], **told).outputs[0]
