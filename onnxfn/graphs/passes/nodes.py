"""Looking at a graph from one of its values: what made it, who reads it, which number it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np


def maker(value: Any, *kinds: str) -> Any:
    """The node that makes a value, when it is of one of these kinds; else None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in kinds and node.domain == "" else None


def number(value: Any) -> float | None:
    """The one number that a value is: a constant of the graph, never a weight of the model; else None."""
    given = constant(value)
    return float(given.reshape(-1)[0]) if given is not None and given.size == 1 and given.dtype != bool else None


def numbers(value: Any) -> tuple[int, ...] | None:
    """The whole numbers that a constant holds."""
    given = constant(value)
    return None if given is None else tuple(int(one) for one in given.reshape(-1))


def constant(value: Any) -> Any:
    """What a constant of the graph holds; None for what is computed, and for the model's own weights."""
    tensor = None if value is None else value.const_value
    if tensor is None or hasattr(getattr(tensor, "raw", None), "untyped_storage"):
        return None
    return tensor.numpy()


def beside(node: Any, value: Any) -> Any:
    """The other operand of a node that takes two."""
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def reader(value: Any, *kinds: str) -> Any:
    """The only node that reads a value, when it is of one of these kinds and the value is no output; else None.

    One that asks for its shape alone is not counted.
    """
    nodes = [use.node for use in value.uses() if use.node.op_type != "Shape"]
    if len(nodes) != 1 or value.is_graph_output():
        return None
    return nodes[0] if nodes[0].op_type in kinds and nodes[0].domain == "" else None


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """What an attribute of a node says."""
    given = node.attributes.get(name)
    return default if given is None else given.value


def dims(value: Any) -> tuple[Any, ...]:
    """The sizes of a value: whole numbers, words for those that move, None where nothing is known."""
    return () if value is None or value.shape is None else tuple(map(_dim, value.shape))


def _dim(size: Any) -> int | str | None:
    if isinstance(size, int):
        return size
    told = getattr(size, "value", size)
    return None if told is None else str(told)


def permuted(value: Any, perm: Sequence[int]) -> Any:
    """What a value is a transposition of, by this permutation; else None."""
    node = maker(value, "Transpose")
    return node.inputs[0] if node is not None and tuple(attribute(node, "perm", ())) == tuple(perm) else None


def sliced(value: Any, size: int) -> tuple[Any, int, int, int] | None:
    """The tensor, start, end and step that a value is a slice of along the last axis, whose size is told; else None.

    A part of a `Split` in two is one, too.
    """
    node = maker(value, "Slice", "Split")
    if node is None or not dims(node.inputs[0]) or dims(node.inputs[0])[-1] != size:
        return None
    rank = len(dims(node.inputs[0]))
    if node.op_type == "Split":
        return _part(node, value, rank)
    starts, ends, axes, *stepping = (numbers(one) for one in node.inputs[1:])
    steps = stepping[0] if stepping else (1,)
    if axes not in ((-1,), (rank - 1,)) or not starts or not ends or not steps:
        return None
    start, end, step = slice(starts[0], ends[0], steps[0]).indices(size)
    return node.inputs[0], start, end, step


def _part(node: Any, value: Any, rank: int) -> tuple[Any, int, int, int] | None:
    widths = [one for given in node.outputs for one in dims(given)[-1:] if isinstance(one, int)]
    if attribute(node, "axis", 0) not in (-1, rank - 1) or len(widths) < len(node.outputs):
        return None
    at = next(place for place, one in enumerate(node.outputs) if one is value)
    start = sum(widths[:at])
    return node.inputs[0], start, start + widths[at], 1


def made(
    before: Any, kind: str, inputs: Sequence[Any], like: Sequence[tuple[Any, Sequence[Any]]], **attributes: Any
) -> Any:
    """A new node, put before another; `like` says of each output what it has the type of, and its sizes."""
    import onnx_ir

    domain, _, name = kind.rpartition("::")
    node = onnx_ir.node(name, list(inputs), attributes=attributes, domain=domain, num_outputs=len(like))
    for value, (other, sizes) in zip(node.outputs, like, strict=True):
        value.type, value.shape = other.type, onnx_ir.Shape(list(sizes))
    before.graph.insert_before(before, node)
    return node


def instead(old: Any, new: Any) -> None:
    """What read a value reads another; an output of the graph keeps its name."""
    if old.is_graph_output():
        name, old.name = old.name, None
        new.name = name
    old.replace_all_uses_with(new, replace_graph_outputs=True)


def whole(graph: Any, *given: int) -> Any:
    """Whole numbers as a constant of the graph."""
    import onnx_ir

    name = f"fused.{'x'.join(map(str, given))}"
    return _kept(graph, name, lambda: onnx_ir.tensor(np.array(given, dtype=np.int64), name=name))


def filled_with(graph: Any, given: float, sizes: Sequence[int], dtype: Any) -> Any:
    """A tensor of one number as a constant of the graph."""
    import onnx_ir

    name = f"fused.{given}.{dtype}.{'x'.join(map(str, sizes))}"
    return _kept(graph, name, lambda: onnx_ir.tensor(np.full(sizes, given, dtype=dtype.numpy()), dtype, name=name))


def _kept(graph: Any, name: str, tensor: Callable[[], Any]) -> Any:
    import onnx_ir

    if name not in graph.initializers:
        held = tensor()
        graph.register_initializer(
            onnx_ir.Value(name=name, const_value=held, shape=held.shape, type=onnx_ir.TensorType(held.dtype))
        )
    return graph.initializers[name]


def has_size(graph: Any, size: Any) -> bool:
    """Whether a size is a number, or one of an input's."""
    return isinstance(size, int) or any(True for _ in _measured(graph, size))


def size_of(before: Any, size: Any, having: Any = None) -> Any:
    """A size as a tensor of one whole number; one that moves is read off an input, or off the first that has it."""
    graph = before.graph
    if isinstance(size, int):
        return whole(graph, size)
    value, axis = next(_measured(graph, size), having)
    for use in value.uses():
        ends = (attribute(use.node, "start", 0), attribute(use.node, "end"))
        if use.node.op_type == "Shape" and ends == (axis, axis + 1):
            return use.node.outputs[0]
    like = whole(graph, 0)
    return made(before, "Shape", [value], [(like, (1,))], start=axis, end=axis + 1).outputs[0]


def _measured(graph: Any, size: Any) -> Iterator[tuple[Any, int]]:
    """The inputs that have a size, and where."""
    return ((value, dims(value).index(size)) for value in graph.inputs if size in dims(value))


def laid(before: Any, value: Any) -> Any:
    """`[batch, length, heads, size]` as `[batch, length, heads * size]`: what it was made of, or a Reshape."""
    batch, length, heads, size = dims(value)
    node = maker(value, "Reshape")
    if node is not None and dims(node.inputs[0]) == (batch, length, heads * size):
        return node.inputs[0]
    sizes = whole(before.graph, 0, 0, heads * size)
    return made(before, "Reshape", [value, sizes], [(value, (batch, length, heads * size))]).outputs[0]
