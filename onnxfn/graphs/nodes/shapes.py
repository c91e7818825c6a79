"""Shapes of values: reads them, finds slices and transposed tensors, adds nodes that read a size or reshape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from onnxfn.graphs.nodes.constants import int_constant, integers
from onnxfn.graphs.nodes.nodes import attribute, insert_node, producer

SWAP_HEADS = (0, 2, 1, 3)
"""The permutation from `[batch, length, heads, size]` to `[batch, heads, length, size]`, and back."""

STEPS = 4
"""The index of the steps in the inputs of a Slice: data, starts, ends, axes, steps."""


@frozen(eq=False)
class Slice:
    """A slice along the last axis: the tensor that is sliced, and the start, end and step of the slice."""

    source: Any
    bounds: tuple[int, int, int]


def shape_of(value: Any) -> tuple[Any, ...]:
    """The sizes of a value: an integer or a symbol for each axis, None for an unknown size, () for an unknown shape."""
    return () if value is None or value.shape is None else tuple(map(_size, value.shape))


def _size(size: Any) -> int | str | None:
    if isinstance(size, int):
        return size
    symbol = getattr(size, "value", size)
    return None if symbol is None else str(symbol)


def last_size(value: Any) -> int | None:
    """The size of the last axis of a value if it is an integer; else None."""
    sizes = shape_of(value)
    return sizes[-1] if sizes and isinstance(sizes[-1], int) else None


def is_last_axis(axis: int | None, rank: int) -> bool:
    """Whether an axis is the last of so many axes."""
    return axis in (-1, rank - 1)


def transposed_from(value: Any, perm: Sequence[int]) -> Any:
    """The tensor that a node transposes by `perm` to compute a value; None if there is no such node."""
    node = producer(value, "Transpose")
    return node.inputs[0] if node is not None and tuple(attribute(node, "perm", ())) == tuple(perm) else None


def slice_of(value: Any, size: int) -> Slice | None:
    """The slice that computes a value, if the last axis of the sliced tensor has `size` elements; else None.

    An output of a Split counts as a slice.
    """
    node = producer(value, "Slice", "Split")
    if node is None or shape_of(node.inputs[0])[-1:] != (size,):
        return None
    return _split_slice(node, value) if node.op_type == "Split" else _plain_slice(node, size)


def _plain_slice(node: Any, size: int) -> Slice | None:
    if len(node.inputs) < STEPS:
        return None  # no axes are given
    starts, ends, axes = map(integers, node.inputs[1:STEPS])
    steps = integers(node.inputs[STEPS]) if len(node.inputs) > STEPS else (1,)
    if axes is None or len(axes) != 1 or not is_last_axis(axes[0], len(shape_of(node.inputs[0]))):
        return None
    if not starts or not ends or not steps or steps[0] == 0:
        return None
    return Slice(node.inputs[0], slice(starts[0], ends[0], steps[0]).indices(size))


def _split_slice(node: Any, value: Any) -> Slice | None:
    widths = [size for output in node.outputs for size in shape_of(output)[-1:] if isinstance(size, int)]
    if not is_last_axis(attribute(node, "axis", 0), len(shape_of(node.inputs[0]))) or len(widths) < len(node.outputs):
        return None
    start = sum(widths[: value.index()])
    return Slice(node.inputs[0], (start, start + widths[value.index()], 1))


def is_readable(graph: Any, size: Any) -> bool:
    """Whether a size is an integer, or a symbol that an axis of an input of the graph has."""
    return isinstance(size, int) or any(True for _ in _inputs_with(graph, size))


def size_tensor(before: Any, size: Any, fallback: Any = None) -> Any:
    """A size as an integer tensor of shape [1].

    A symbol is read from the first input of the graph that has it, or from `fallback`, a value and an axis. If a Shape
    node reads this axis already, its output is used.
    """
    graph = before.graph
    if isinstance(size, int):
        return int_constant(graph, size)
    value, axis = next(_inputs_with(graph, size), fallback)
    for use in value.uses():
        bounds = (attribute(use.node, "start", 0), attribute(use.node, "end"))
        if use.node.op_type == "Shape" and bounds == (axis, axis + 1):
            return use.node.outputs[0]
    like = int_constant(graph, 0)
    return insert_node(before, "Shape", [value], [(like, (1,))], start=axis, end=axis + 1).outputs[0]


def _inputs_with(graph: Any, size: Any) -> Iterator[tuple[Any, int]]:
    """The inputs that have an axis of this size, each with the index of the axis."""
    if size is None:
        return
    for value in graph.inputs:
        if size in shape_of(value):
            yield value, shape_of(value).index(size)


def flatten_heads(before: Any, value: Any) -> Any:
    """A tensor `[batch, length, heads, size]` as `[batch, length, heads * size]`.

    It is the tensor that a Reshape made it from, if that has the shape; else a Reshape is inserted.
    """
    batch, length, heads, size = shape_of(value)
    reshape = producer(value, "Reshape")
    if reshape is not None and shape_of(reshape.inputs[0]) == (batch, length, heads * size):
        return reshape.inputs[0]
    sizes = int_constant(before.graph, 0, 0, heads * size)
    return insert_node(before, "Reshape", [value, sizes], [(value, (batch, length, heads * size))]).outputs[0]
