"""The pass that finds rotary embeddings, which are said in some ten nodes below opset 23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from onnxfn.graphs.passes.nodes import (
    attribute,
    beside,
    dims,
    has_size,
    instead,
    laid,
    made,
    maker,
    number,
    reader,
    size_of,
    sliced,
    whole,
)

PLAIN = frozenset({"Cos", "Sin", "Cast", "Unsqueeze", "Squeeze", "Identity"})
"""What keeps a table that says everything twice one that does so."""

RANK = 4
HALVES, BACKWARDS, PAIRS, ONCE = "halves", "backwards", "pairs", "once"


@frozen(eq=False)
class Rotation:
    """A rotary embedding that was found: of what, by which angles, and the value that it makes.

    `said` is how the angles are: `halves` and `pairs` say each twice, `once` does not; `backwards` are halves of the
    other sign.
    """

    taken: Any
    cosines: Any
    sines: Any
    size: int
    said: str
    paired: bool
    heads: int
    given: Any


def rotated(model: Any) -> Any:
    """Before: a graph of opset 23 or later. After: what is `x * cos + turned * sin` is one RotaryEmbedding.

    `x` is `[batch, heads, length, size]` or `[batch, length, heads, size]`; a part of its last axis may be left as it
    is. Cosines and sines may say each angle twice, as two halves or as pairs, which is followed back to where that is
    done; the halves that the operator reads are cut once for all layers.
    """
    cuts: dict[tuple[Any, str], Any] = {}
    for node in list(model.graph):
        found = _rotation(node) if node.op_type == "Neg" else _crossing(node) if node.op_type == "Sub" else None
        if found is not None:
            _replace(found, cuts)
    return model


def _rotation(negated: Any) -> Rotation | None:
    """A rotation from its one negation: `concat(-x[half:], x[:half])`, or the same of each pair."""
    turned = _halves(negated, 0) or _halves(negated, 1) or _pairs(negated)
    if turned is None:
        return None
    taken, size, given, said = turned
    by_sine = reader(given, "Mul")
    total: Any = reader(by_sine.outputs[0], "Add") if by_sine is not None else None
    by_cosine: Any = maker(beside(total, by_sine.outputs[0]), "Mul") if total is not None else None
    if by_cosine is None or not any(one is taken for one in by_cosine.inputs):
        return None
    cosines, sines = beside(by_cosine, taken), beside(by_sine, given)
    heads = _heads((cosines, sines), taken, size)
    if heads is None or not all(_twice(one, said) for one in (cosines, sines)):
        return None
    taken, given = _partial(taken, size, total.outputs[0])
    return Rotation(taken, cosines, sines, size, said, said == PAIRS, heads, given)


def _crossing(difference: Any) -> Rotation | None:
    """A rotation from its one difference: `a * cos - b * sin`, joined with `b * cos + a * sin` or stacked with it."""
    met = _met(difference)
    total = maker(met[0], "Add") if met is not None else None
    products = [maker(one, "Mul") for node in (difference, total) if node is not None for one in node.inputs]
    if met is None or len(products) != 4 or None in products or not isinstance(dims(met[1])[-1], int):  # noqa: PLR2004
        return None
    (_, given, paired), size = met, dims(met[1])[-1]
    left, right, *crossed = (set(one.inputs) for one in products)
    for a, cosines, b, sines in _orders(products[0], products[1]):
        straight = {a, cosines} == left and {b, sines} == right
        fits = straight and all(one in crossed for one in ({b, cosines}, {a, sines}))
        heads = _heads((cosines, sines), a, size // 2) if fits and dims(a) == dims(b) else None
        taken = None if heads is None else _stacked(a, b) if paired else _joined(difference, a, b, size)
        if taken is not None and heads is not None:
            taken, given = _partial(taken, size, given)
            return Rotation(taken, cosines, sines, size, ONCE, paired, heads, given)
    return None


def _met(difference: Any) -> tuple[Any, Any, bool] | None:
    """What a difference is joined with along the last axis, what is made of both, and whether by pairs."""
    lifted = reader(difference.outputs[0], "Unsqueeze")
    first = difference.outputs[0] if lifted is None else lifted.outputs[0]
    joined = reader(first, "Concat")
    if joined is None or len(joined.inputs) != 2 or joined.inputs[0] is not first:  # noqa: PLR2004
        return None
    if attribute(joined, "axis") not in (-1, len(dims(joined.outputs[0])) - 1):
        return None
    if lifted is None:
        return joined.inputs[1], joined.outputs[0], False
    other, flat = maker(joined.inputs[1], "Unsqueeze"), reader(joined.outputs[0], "Reshape")
    pairs = other is not None and flat is not None and dims(joined.outputs[0])[-1:] == (2,)
    merged = pairs and dims(flat.outputs[0])[:-1] == dims(difference.outputs[0])[:-1]
    return (other.inputs[0], flat.outputs[0], True) if merged else None


def _stacked(a: Any, b: Any) -> Any:
    """The tensor whose last axis holds the pairs that two make, when they were taken out of one."""
    cuts = [sliced(part.inputs[0], 2) for part in (maker(one, "Squeeze") for one in (a, b)) if part is not None]
    found = [(id(one[0]), *one[1:]) for one in cuts if one is not None]
    if not cuts or cuts[0] is None or found != [(id(cuts[0][0]), 0, 1, 1), (id(cuts[0][0]), 1, 2, 1)]:
        return None
    node = maker(cuts[0][0], "Reshape")
    whole_of_it = (*dims(a)[:-1], dims(a)[-1] * 2)
    return node.inputs[0] if node is not None and dims(node.inputs[0]) == whole_of_it else None


def _orders(one: Any, other: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    for a, cosines in (one.inputs, one.inputs[::-1]):
        for b, sines in (other.inputs, other.inputs[::-1]):
            yield a, cosines, b, sines


def _joined(before: Any, a: Any, b: Any, size: int) -> Any:
    """The tensor that two are the halves of, made where there is none."""
    left, right = sliced(a, size), sliced(b, size)
    halves = left is not None and right is not None and left[0] is right[0]
    if halves and left[1:] == (0, size // 2, 1) and right[1:] == (size // 2, size, 1):  # type: ignore[index]
        return left[0]  # type: ignore[index]
    return made(before, "Concat", [a, b], [(a, (*dims(a)[:-1], size))], axis=-1).outputs[0]


def _halves(negated: Any, at: int) -> tuple[Any, int, Any, str] | None:
    """`concat(-x[half:], x[:half])`, or backwards `concat(x[half:], -x[:half])`: x, its last size, and what is made."""
    joined = reader(negated.outputs[0], "Concat")
    if joined is None or len(joined.inputs) != 2 or joined.inputs[at] is not negated.outputs[0]:  # noqa: PLR2004
        return None
    size = dims(joined.outputs[0])[-1]
    if not isinstance(size, int) or attribute(joined, "axis") not in (-1, len(dims(joined.outputs[0])) - 1):
        return None
    parts = list(joined.inputs)
    parts[at] = negated.inputs[0]
    first, second = (sliced(one, size) for one in parts)
    if first is None or second is None or first[0] is not second[0]:
        return None
    fits = first[1:] == (size // 2, size, 1) and second[1:] == (0, size // 2, 1)
    return (first[0], size, joined.outputs[0], (HALVES, BACKWARDS)[at]) if fits else None


def _pairs(negated: Any) -> tuple[Any, int, Any, str] | None:
    """`stack(-x[1::2], x[::2])` with its last two axes made one."""
    lifted = reader(negated.outputs[0], "Unsqueeze")
    joined: Any = reader(lifted.outputs[0], "Concat") if lifted is not None else None
    flat: Any = reader(joined.outputs[0], "Reshape") if joined is not None else None
    if flat is None or len(joined.inputs) != 2 or joined.inputs[0] is not lifted.outputs[0]:  # noqa: PLR2004
        return None
    size, other = dims(flat.outputs[0])[-1] if dims(flat.outputs[0]) else None, maker(joined.inputs[1], "Unsqueeze")
    if not isinstance(size, int) or other is None or dims(joined.outputs[0])[-2:] != (size // 2, 2):
        return None
    odd, even = sliced(negated.inputs[0], size), sliced(other.inputs[0], size)
    if odd is None or even is None or odd[0] is not even[0]:
        return None
    fits = odd[1:] == (1, size, 2) and even[1:] == (0, size, 2)
    return (even[0], size, flat.outputs[0], PAIRS) if fits else None


def _heads(angles: tuple[Any, Any], taken: Any, width: int) -> int | None:
    """Which axis of `x` is its heads: angles, `[batch or 1, 1, length, width]` or `[length, width]`, are 1 there."""
    sizes, full = dims(angles[0]), dims(taken)
    if len(full) != RANK or len(sizes) not in (2, RANK) or None in (*sizes, *full) or dims(angles[1]) != sizes:
        return None
    first, *others = sizes[:-1] if len(sizes) == RANK else (1, 1, sizes[0])
    if first != full[0] and (first != 1 or not has_size(taken.producer().graph, full[0])):
        return None
    fitting = (axis for axis in (1, 2) if others[axis - 1] == 1 and others[2 - axis] == full[3 - axis])
    return next((axis for axis in fitting if sizes[-1] == width and isinstance(full[axis], int)), None)


def _twice(angles: Any, said: str) -> bool:
    """Whether a table says each angle twice: as two equal halves, or each beside itself."""
    node = angles.producer()
    while node is not None and _keeps(node):
        angles = next((one for one in node.inputs if one is not None and number(one) is None), None)
        node = angles.producer() if angles is not None else None
    return node is not None and (_repeated(node) if said == PAIRS else _doubled(node))


def _keeps(node: Any) -> bool:
    scales = node.op_type in ("Mul", "Div") and any(number(one) is not None for one in node.inputs)
    return node.domain == "" and (node.op_type in PLAIN or scales) and not _on_last(node)


def _on_last(node: Any) -> bool:
    """Whether an axis is put in, or taken out, behind the last."""
    if node.op_type not in ("Unsqueeze", "Squeeze"):
        return False
    return dims(node.inputs[0])[-1:] != dims(node.outputs[0])[-1:]


def _doubled(node: Any) -> bool:
    last = attribute(node, "axis") in (-1, len(dims(node.outputs[0])) - 1)
    return node.op_type == "Concat" and last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]  # noqa: PLR2004


def _repeated(node: Any) -> bool:
    """`x[..., None]` expanded to two and its last two axes made one."""
    if node.op_type != "Reshape":
        return False
    spread = maker(node.inputs[0], "Expand", "Concat", "Tile")
    lifted: Any = maker(spread.inputs[0], "Unsqueeze") if spread is not None else None
    if lifted is None or dims(spread.outputs[0])[-1:] != (2,):
        return False
    joined = spread.op_type != "Concat" or all(one is spread.inputs[0] for one in spread.inputs)
    return joined and dims(spread.outputs[0])[-2] == dims(lifted.inputs[0])[-1]


def _partial(taken: Any, size: int, given: Any) -> tuple[Any, Any]:
    """The whole tensor and what is made of it, where only the first `size` of its last axis are turned."""
    joined = reader(given, "Concat")
    cut = maker(taken, "Slice", "Split")
    if joined is None or cut is None or len(joined.inputs) != 2 or joined.inputs[0] is not given:  # noqa: PLR2004
        return taken, given
    full = dims(cut.inputs[0])[-1]
    if not isinstance(full, int) or dims(joined.outputs[0]) != dims(cut.inputs[0]):
        return taken, given
    turned, left = sliced(taken, full), sliced(joined.inputs[1], full)
    if turned is None or left is None or turned[0] is not left[0]:
        return taken, given
    fits = turned[1:] == (0, size, 1) and left[1:] == (size, full, 1)
    return (turned[0], joined.outputs[0]) if fits else (taken, given)


def _replace(found: Rotation, cuts: dict[tuple[Any, str], Any]) -> None:
    last = found.given.producer()
    tables = [_cut(last, one, found, cuts) for one in (found.cosines, found.sines)]
    if found.said == BACKWARDS:
        tables[1] = _negated(last, tables[1], cuts)
    told = {"interleaved": int(found.paired)}
    if dims(found.taken)[-1] != found.size:
        told["rotary_embedding_dim"] = found.size
    like = [(found.given, found.given.shape)]
    if found.heads == 1:
        new = made(last, "RotaryEmbedding", [found.taken, *tables], like, **told).outputs[0]
    else:
        heads, size = dims(found.taken)[2:]
        flat = laid(last, found.taken)
        node = made(last, "RotaryEmbedding", [flat, *tables], [(flat, flat.shape)], num_heads=heads, **told)
        sizes = whole(last.graph, 0, 0, heads, size)
        new = made(last, "Reshape", [node.outputs[0], sizes], like).outputs[0]
    instead(found.given, new)


def _cut(last: Any, angles: Any, found: Rotation, cuts: dict[tuple[Any, str], Any]) -> Any:
    """Each angle once, as `[batch, length, size / 2]`; made once."""
    key = (angles, found.said)
    if key not in cuts:
        cuts[key] = _over_batch(last, _half(last, _in_three(last, angles, found), found), found)
    return cuts[key]


def _negated(last: Any, sines: Any, cuts: dict[tuple[Any, str], Any]) -> Any:
    key = (sines, "negated")
    if key not in cuts:
        cuts[key] = made(last, "Neg", [sines], [(sines, sines.shape)]).outputs[0]
    return cuts[key]


def _in_three(last: Any, angles: Any, found: Rotation) -> Any:
    """Angles as `[batch or 1, length, size]`."""
    kind, axis = ("Squeeze", found.heads) if len(dims(angles)) == RANK else ("Unsqueeze", 0)
    sizes = (dims(angles)[0] if axis else 1, dims(found.taken)[3 - found.heads], dims(angles)[-1])
    lifted = maker(angles, "Unsqueeze")
    if axis and lifted is not None and dims(lifted.inputs[0]) == sizes:
        return lifted.inputs[0]
    return made(last, kind, [angles, whole(last.graph, axis)], [(angles, sizes)]).outputs[0]


def _half(last: Any, angles: Any, found: Rotation) -> Any:
    if found.said == ONCE:
        return angles
    once = None if found.said == PAIRS else _once(last, angles)
    if once is not None:
        return once
    end, step = (found.size, 2) if found.said == PAIRS else (found.size // 2, 1)
    cut = [whole(last.graph, one) for one in (0, end, 2, step)]
    return made(last, "Slice", [angles, *cut], [(angles, (*dims(angles)[:2], found.size // 2))]).outputs[0]


def _once(last: Any, angles: Any) -> Any:
    """A table as it is before it says everything twice, where no more than its shape is kept until it does."""
    node = angles.producer()
    if node is None or _doubled(node):
        return node and node.inputs[0]
    taken = [one for one in node.inputs if number(one) is None]
    if not _keeps(node) or node.op_type in ("Unsqueeze", "Squeeze") or len(taken) != 1:
        return None
    once = _once(last, taken[0])
    if once is None:
        return None
    inputs = [once if one is taken[0] else one for one in node.inputs]
    told = {name: one.value for name, one in node.attributes.items()}
    return made(last, node.op_type, inputs, [(angles, (*dims(angles)[:-1], dims(once)[-1]))], **told).outputs[0]


def _over_batch(last: Any, angles: Any, found: Rotation) -> Any:
    """Angles that are the same for every row of a batch, once a row: the operator does not broadcast."""
    graph, batch = last.graph, dims(found.taken)[0]
    if dims(angles)[0] == batch:
        return angles
    sizes = made(last, "Concat", [size_of(last, batch), whole(graph, 1, 1)], [(whole(graph, 0), (3,))], axis=0)
    return made(last, "Expand", [angles, sizes.outputs[0]], [(angles, (batch, *dims(angles)[1:]))]).outputs[0]
