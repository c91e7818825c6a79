"""The pass that fuses rotary embeddings (RoPE); each is found from a node that occurs only once in it."""

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from onnxfn.graphs.nodes import nodes

HALVES, PAIRS, ONCE = "halves", "pairs", "once"
"""The layouts of a table of cosines or sines: `[a, b, a, b]`, `[a, a, b, b]` and `[a, b]` for the angles a and b."""

RANK = 4


@frozen(eq=False)
class Rotation:
    """A rotary embedding of `x`, `[batch, heads, length, size]` or `[batch, length, heads, size]`, in a graph.

    `cos` and `sin`: tables `[length, width]`, or with four axes and size 1 at the axis of the heads. `size`: the number
    of rotated elements at the start of the last axis of x. `layout`: that of both tables. `backwards`: the direction is
    the opposite. `interleaved`: an element is rotated with its neighbor; else with that `size / 2` away.
    """

    x: Any
    cos: Any
    sin: Any
    size: int
    layout: str
    backwards: bool
    interleaved: bool
    heads_axis: int
    output: Any


@frozen(eq=False)
class HalfTurn:
    """The second term of a rotation, `rotate_half(x)` in transformers, before it is multiplied by the sines."""

    x: Any
    size: int
    layout: str
    backwards: bool
    output: Any


# x * cos + rotate_half(x) * sin, which has one negation


def _with_negation(negation: Any) -> Rotation | None:
    turn = _half_turn(negation, 0) or _half_turn(negation, 1) or _half_turn_of_pairs(negation)
    if turn is None:
        return None
    by_sin = nodes.sole_consumer(turn.output, "Mul")
    total = nodes.sole_consumer(nodes.first_output(by_sin), "Add")
    by_cos = nodes.producer(nodes.other_operand(total, nodes.first_output(by_sin)), "Mul")
    if by_cos is None or not any(operand is turn.x for operand in by_cos.inputs):
        return None
    cos, sin = nodes.other_operand(by_cos, turn.x), nodes.other_operand(by_sin, turn.output)
    heads_axis = _heads_axis(negation.graph, cos, sin, turn.x, turn.size)
    if heads_axis is None or not all(_repeats_angles(table, turn.layout) for table in (cos, sin)):
        return None
    x, output = _with_rest(turn.x, turn.size, total.outputs[0])
    return Rotation(x, cos, sin, turn.size, turn.layout, turn.backwards, turn.layout == PAIRS, heads_axis, output)


def _half_turn(negation: Any, index: int) -> HalfTurn | None:
    """`concat(-x[half:], x[:half])`, with the negation at index 0, or backwards `concat(x[half:], -x[:half])`."""
    concat = _concat_along_last(negation.outputs[0], index)
    size = nodes.last_size(nodes.first_output(concat))
    if concat is None or size is None:
        return None
    parts = list(concat.inputs)
    parts[index] = negation.inputs[0]
    x = _common_source(size, (parts[0], (size // 2, size, 1)), (parts[1], (0, size // 2, 1)))
    return None if x is None else HalfTurn(x, size, HALVES, index == 1, concat.outputs[0])


def _half_turn_of_pairs(negation: Any) -> HalfTurn | None:
    """`stack(-x[1::2], x[::2])`, whose last two axes are merged."""
    concat = _concat_along_last(nodes.first_output(nodes.sole_consumer(negation.outputs[0], "Unsqueeze")), 0)
    reshape = nodes.sole_consumer(nodes.first_output(concat), "Reshape")
    size = nodes.last_size(nodes.first_output(reshape))
    if concat is None or reshape is None or size is None or nodes.shape_of(concat.outputs[0])[-2:] != (size // 2, 2):
        return None
    even = nodes.first_input(nodes.producer(concat.inputs[1], "Unsqueeze"))
    x = _common_source(size, (negation.inputs[0], (1, size, 2)), (even, (0, size, 2)))
    return None if x is None else HalfTurn(x, size, PAIRS, backwards=False, output=reshape.outputs[0])


# a * cos - b * sin, which has one difference, joined with b * cos + a * sin


def _with_difference(difference: Any) -> Rotation | None:
    total, output, interleaved = _joined(difference) or (None, None, False)
    size = nodes.last_size(output)
    if total is None or size is None:
        return None
    for a, cos, b, sin in _factors(difference, nodes.producer(total, "Add")):
        is_pair = nodes.shape_of(a) == nodes.shape_of(b)
        heads_axis = _heads_axis(difference.graph, cos, sin, a, size // 2) if is_pair else None
        if heads_axis is not None:
            x = _from_pairs(a, b) if interleaved else _from_halves(difference, a, b, size)
            if x is not None:
                x, output = _with_rest(x, size, output)
                return Rotation(x, cos, sin, size, ONCE, False, interleaved, heads_axis, output)
    return None


def _joined(difference: Any) -> tuple[Any, Any, bool] | None:
    """The tensor that a difference is joined with along the last axis, the result, and whether they alternate in it."""
    unsqueeze = nodes.sole_consumer(difference.outputs[0], "Unsqueeze")
    concat = _concat_along_last(difference.outputs[0] if unsqueeze is None else unsqueeze.outputs[0], 0)
    if concat is None:
        return None
    if unsqueeze is None:
        return concat.inputs[1], concat.outputs[0], False
    other, reshape = nodes.producer(concat.inputs[1], "Unsqueeze"), nodes.sole_consumer(concat.outputs[0], "Reshape")
    if other is None or reshape is None or nodes.shape_of(concat.outputs[0])[-1:] != (2,):
        return None
    if nodes.shape_of(reshape.outputs[0])[:-1] != nodes.shape_of(difference.outputs[0])[:-1]:
        return None
    return other.inputs[0], reshape.outputs[0], True


def _factors(difference: Any, total: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """`a, cos, b, sin` of a difference `a * cos - b * sin`, where the sum is `b * cos + a * sin`."""
    operands = () if total is None else (*difference.inputs, *total.inputs)
    products = [nodes.producer(operand, "Mul") for operand in operands]
    if not products or None in products:
        return
    left, right, *crossed = (product.inputs for product in products)
    crossed_pairs = [set(pair) for pair in crossed]
    for a, cos in (left, left[::-1]):
        for b, sin in (right, right[::-1]):
            if {b, cos} in crossed_pairs and {a, sin} in crossed_pairs:
                yield a, cos, b, sin


def _from_pairs(a: Any, b: Any) -> Any:
    """The tensor whose elements alternate between `a` and `b`, if both are read from its pairs; else None."""
    first, second = (nodes.first_input(nodes.producer(part, "Squeeze")) for part in (a, b))
    x = nodes.first_input(nodes.producer(_common_source(2, (first, (0, 1, 1)), (second, (1, 2, 1))), "Reshape"))
    return x if nodes.shape_of(x) == (*nodes.shape_of(a)[:-1], nodes.shape_of(a)[-1] * 2) else None


def _from_halves(before: Any, a: Any, b: Any, size: int) -> Any:
    """The tensor with the halves `a` and `b`; without one, a Concat of both is inserted."""
    x = _common_source(size, (a, (0, size // 2, 1)), (b, (size // 2, size, 1)))
    if x is not None:
        return x
    return nodes.insert_value(before, "Concat", [a, b], a, (*nodes.shape_of(a)[:-1], size), axis=-1)


def _concat_along_last(value: Any, index: int) -> Any:
    """The Concat of two tensors along the last axis that alone reads a value, as its input `index`; else None."""
    concat = nodes.sole_consumer(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.inputs[index] is not value:  # noqa: PLR2004
        return None
    rank = len(nodes.shape_of(concat.outputs[0]))
    return concat if nodes.is_last_axis(nodes.attribute(concat, "axis"), rank) else None


def _common_source(size: int, *parts: tuple[Any, tuple[int, int, int]]) -> Any:
    """The tensor, with a last axis of this size, that all values are slices of, each with its bounds; else None."""
    slices = [nodes.slice_of(value, size) or (None, None) for value, _ in parts]
    source = slices[0][0]
    fits = all(cut[0] is source and cut[1] == bounds for cut, (_, bounds) in zip(slices, parts, strict=True))
    return source if fits else None


def _with_rest(x: Any, size: int, output: Any) -> tuple[Any, Any]:
    """The input and output of a rotation with the elements that are not rotated, if there are any after the first."""
    concat, cut = _concat_along_last(output, 0), nodes.producer(x, "Slice", "Split")
    full = nodes.last_size(nodes.first_input(cut))
    if concat is None or full is None or nodes.shape_of(concat.outputs[0]) != nodes.shape_of(cut.inputs[0]):
        return x, output
    source = _common_source(full, (x, (0, size, 1)), (concat.inputs[1], (size, full, 1)))
    return (x, output) if source is None else (source, concat.outputs[0])


def _heads_axis(graph: Any, cos: Any, sin: Any, x: Any, width: int) -> int | None:
    """The axis of the heads in x, 1 or 2, where the tables have size 1; None if the tables do not fit x."""
    table, full = nodes.shape_of(cos), nodes.shape_of(x)
    if len(full) != RANK or len(table) not in (2, RANK) or nodes.shape_of(sin) != table or None in (*table, *full):
        return None
    # The tables are `[batch or 1, 1, length, width]`, `[batch or 1, length, 1, width]` or `[length, width]`.
    batch, *middle = table[:-1] if len(table) == RANK else (1, 1, table[0])
    if table[-1] != width or batch not in (1, full[0]):
        return None
    is_readable = isinstance(full[0], int) or any(full[0] in nodes.shape_of(value) for value in graph.inputs)
    if batch != full[0] and not is_readable:
        return None
    for axis, length_axis in ((1, 2), (2, 1)):
        if (middle[axis - 1], middle[length_axis - 1]) == (1, full[length_axis]) and isinstance(full[axis], int):
            return axis
    return None


def _repeats_angles(table: Any, layout: str) -> bool:
    """Whether a table has each angle twice, in this layout: it is followed back to the node that repeats the angles."""
    node = table.producer()
    while node is not None and _keeps_layout(node):
        operand = next((value for value in node.inputs if value is not None and nodes.scalar(value) is None), None)
        node = None if operand is None else operand.producer()
    if node is None or layout == PAIRS:
        return node is not None and _repeats_elements(node)
    last = nodes.is_last_axis(nodes.attribute(node, "axis"), len(nodes.shape_of(node.outputs[0])))
    return node.op_type == "Concat" and last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]  # noqa: PLR2004


def _keeps_layout(node: Any) -> bool:
    """Whether a node keeps the layout of a table: elementwise, or a product or quotient with a number."""
    scales = node.op_type in ("Mul", "Div") and any(nodes.scalar(value) is not None for value in node.inputs)
    if nodes.is_operator(node, "Unsqueeze", "Squeeze"):  # not after the last axis
        return nodes.shape_of(node.inputs[0])[-1:] == nodes.shape_of(node.outputs[0])[-1:]
    return node.domain == "" and (node.op_type in ("Cos", "Sin", "Cast", "Identity") or scales)


def _repeats_elements(node: Any) -> bool:
    """Whether a node merges the last two axes of `angles[..., None]`, repeated twice along the last."""
    if not nodes.is_operator(node, "Reshape"):
        return False
    spread = nodes.producer(node.inputs[0], "Expand", "Concat", "Tile")
    unsqueeze = nodes.producer(nodes.first_input(spread), "Unsqueeze")
    if unsqueeze is None or nodes.shape_of(spread.outputs[0])[-1:] != (2,):
        return False
    if spread.op_type == "Concat" and not all(value is spread.inputs[0] for value in spread.inputs):
        return False
    return nodes.shape_of(spread.outputs[0])[-2:-1] == nodes.shape_of(unsqueeze.inputs[0])[-1:]


def fuse_rotary(model: Any) -> Any:
    """Fuses each rotary embedding into one operator.

    Before: a graph of opset 23 or later computes `x * cos + rotate_half(x) * sin` in about ten nodes; it may rotate
    only a part of the last axis. After: it is one RotaryEmbedding. It reads half of a table that has each angle twice.
    """
    for node in list(model.graph):
        rotation = _with_negation(node) if nodes.is_operator(node, "Neg") else None
        rotation = _with_difference(node) if nodes.is_operator(node, "Sub") else rotation
        if rotation is not None:
            _replace(rotation)
    return model


def _replace(rotation: Rotation) -> None:
    x, last = rotation.x, rotation.output.producer()
    cos, sin = (_table(last, table, rotation) for table in (rotation.cos, rotation.sin))
    if rotation.backwards:
        sin = nodes.insert_value(last, "Neg", [sin], sin, sin.shape)
    attributes = {"interleaved": int(rotation.interleaved)}
    if nodes.shape_of(x)[-1] != rotation.size:
        attributes["rotary_embedding_dim"] = rotation.size
    if rotation.heads_axis == 1:
        nodes.compute_by(rotation.output, "RotaryEmbedding", [x, cos, sin], **attributes)
        return
    heads, size = nodes.shape_of(x)[2:]
    inputs = [nodes.flatten_heads(last, x), cos, sin]
    flat = nodes.insert_value(last, "RotaryEmbedding", inputs, x, inputs[0].shape, num_heads=heads, **attributes)
    nodes.compute_by(rotation.output, "Reshape", [flat, nodes.int_constant(last.graph, 0, 0, heads, size)])


# Tables of cosines and sines as the operator reads them: `[batch, length, size / 2]`


def _table(last: Any, table: Any, rotation: Rotation) -> Any:
    """The cosines or sines of a rotation, each angle once; new nodes are inserted before `last`."""
    return _for_batch(last, _each_once(last, _without_heads(last, table, rotation), rotation), rotation)


def _without_heads(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table as `[batch or 1, length, size]`."""
    operator, axis = ("Squeeze", rotation.heads_axis) if len(nodes.shape_of(table)) == RANK else ("Unsqueeze", 0)
    batch, length = nodes.shape_of(table)[0] if axis else 1, nodes.shape_of(rotation.x)[3 - rotation.heads_axis]
    sizes = (batch, length, nodes.shape_of(table)[-1])
    unsqueeze = nodes.producer(table, "Unsqueeze")
    if axis and unsqueeze is not None and nodes.shape_of(unsqueeze.inputs[0]) == sizes:
        return unsqueeze.inputs[0]
    return nodes.insert_value(last, operator, [table, nodes.int_constant(last.graph, axis)], table, sizes)


def _each_once(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table with each angle once."""
    if rotation.layout == ONCE:
        return table
    end, step = (rotation.size, 2) if rotation.layout == PAIRS else (rotation.size // 2, 1)
    bounds = [nodes.int_constant(last.graph, number) for number in (0, end, 2, step)]
    return nodes.insert_value(last, "Slice", [table, *bounds], table, (*nodes.shape_of(table)[:2], rotation.size // 2))


def _for_batch(last: Any, table: Any, rotation: Rotation) -> Any:
    """A table with the batch size of x: the operator does not broadcast this axis."""
    graph, batch = last.graph, nodes.shape_of(rotation.x)[0]
    if nodes.shape_of(table)[0] == batch:
        return table
    size, ones = nodes.size_tensor(last, batch), nodes.int_constant(graph, 1, 1)
    sizes = nodes.insert_value(last, "Concat", [size, ones], ones, (3,), axis=0)
    return nodes.insert_value(last, "Expand", [table, sizes], table, (batch, *nodes.shape_of(table)[1:]))
