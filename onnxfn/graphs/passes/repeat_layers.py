"""A pass that makes a graph of a few layers one of many, where the few prove what the others are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen

from onnxfn.graphs.capture.repeated_layers import LayerStack
from onnxfn.graphs.passes.node_copies import copied, does_the_same, read, reread, same_constant
from onnxfn.graphs.passes.slots import SLOT, slot_of
from onnxfn.specs.errors import LayersDiffer
from onnxfn.specs.planned import Part

OUTSIDE = -1
"""The block of what depends on no layer."""

Place = tuple[str, int, int]
Rows = Mapping[str, Place]
"""Inputs and outputs that a layer keeps: which of both, the number of the layer, which of its rows."""


@frozen
class Traced:
    """What was traced of a stack: which rows its layers keep, and the nodes of two periods and of the end."""

    stack: LayerStack
    rows: Rows
    outside: list[Any]
    first: list[Any]
    second: list[Any]
    end: list[Any]


def repeat_layers(model: Any, stack: LayerStack, rows: Rows, planned: Rows) -> Any:
    """A graph with all layers of a stack, of one with the first few.

    Before: the graph runs no more of the stack than tells all, whose layers keep `rows`; its parameters are slots.
    After: it runs the whole, whose layers keep what is planned. A block is what depends on a layer and on none after
    it. The blocks of one period are compared with those of the next, node by node: what they do, and where from they
    read: their own nodes, the parameters and the cache of their own layers, the period before, or what is outside of
    both. What is so proven for two periods is repeated for all that follow, and the end of the graph becomes that of
    the last layers. Raises LayersDiffer, which says where the proof fails; the graph is then as it was.
    """
    traced = _traced(model.graph, stack, rows)
    if traced is None:
        return model
    forth = _proof(traced, planned)
    repeated = _repeated(model.graph, traced, forth, {place: name for name, place in planned.items()})
    nodes = [*traced.outside, *traced.first, *traced.second, *repeated, *traced.end]
    model.graph.remove(list(model.graph))
    model.graph.extend(nodes)
    return model


def layer_ports(part: Part) -> Rows:
    """The inputs and outputs of a part that its layers keep."""
    found: dict[str, Place] = {}
    for side, there in (("input", part.spec.inputs), ("output", part.spec.outputs)):
        seen: dict[int, int] = {}
        for one in there:
            if one.layer is not None:
                seen[one.layer] = seen.get(one.layer, 0) + 1
                found[one.name] = side, one.layer, seen[one.layer]
    return found


def _traced(graph: Any, stack: LayerStack, rows: Rows) -> Traced | None:
    """The nodes by what they are to the stack; None when nothing here runs it."""
    blocks = _blocks(graph, stack, rows)
    deepest = max(blocks, default=OUTSIDE)
    if deepest == OUTSIDE:
        return None
    if deepest != stack.traced_layers - 1:
        raise LayersDiffer(
            f"{stack.path}: of {stack.traced_layers} layers that were traced the last that counts is {deepest}"
        )
    starts = [stack.head + number * stack.period for number in range(3)]
    edges = [OUTSIDE, *starts, stack.traced_layers]
    parts = (
        [node for block in sorted(blocks) if start <= block < stop for node in blocks[block]]
        for start, stop in pairwise(edges)
    )
    return Traced(stack, rows, *parts)


def _blocks(graph: Any, stack: LayerStack, rows: Rows) -> dict[int, list[Any]]:
    """The nodes by the last layer that they depend on, in their order."""
    levels: dict[Any, int] = {}
    blocks: dict[int, list[Any]] = {}
    for node in graph:
        reads = list(read(node))
        for value in reads:
            if value not in levels:
                told = _layer(value, stack, rows)
                levels[value] = OUTSIDE if told is None else told
        level = max((levels[value] for value in reads), default=OUTSIDE)
        levels.update(dict.fromkeys(node.outputs, level))
        blocks.setdefault(level, []).append(node)
    return blocks


# What belongs to a layer


def _layer(value: Any, stack: LayerStack, rows: Rows) -> int | None:
    """The layer that a parameter or an input of the graph belongs to."""
    known = slot_of(value)
    if known is not None:
        return stack.layer_index(known.parameter)
    return rows[value.name][1] if value.is_graph_input() and value.name in rows else None


# The proof


def _proof(traced: Traced, rows: Rows) -> dict[Any, Any]:
    """What the first period makes -> what the second makes in its place; LayersDiffer when they do not the same."""
    path, first, second = traced.stack.path, traced.first, traced.second
    _rows_repeat(traced, rows)
    if len(first) != len(second):
        raise LayersDiffer(f"{path}: one period has {len(first)} nodes, the next has {len(second)}")
    forth: dict[Any, Any] = {}
    made = {value for node in first for value in node.outputs}
    for one, other in zip(first, second, strict=True):
        if not does_the_same(one, other):
            raise LayersDiffer(f"{path}: {_told(one)} of one period is {_told(other)} in the next")
        for value, against in zip(read(one), read(other), strict=True):
            if not _stands_for(traced, value, against, made, forth):
                raise LayersDiffer(
                    f"{path}: {_told(one)} reads {value.name} in one period and {against.name} in the next, which do "
                    "not stand for each other"
                )
        for value, against in zip(one.outputs, other.outputs, strict=True):
            forth[value] = against
            given = value.is_graph_output(), against.is_graph_output()
            if any(given) and not (all(given) and _same_row(traced, value, against)):
                raise LayersDiffer(
                    f"{path}: {value.name} of one period and {against.name} of the next are not given alike"
                )
    unheard = next((node for node in traced.end if any(value in made for value in read(node))), None)
    if unheard is not None:
        raise LayersDiffer(f"{path}: {_told(unheard)} at the end reads what is not of the period before it")
    return forth


def _rows_repeat(traced: Traced, rows: Rows) -> None:
    """What the layers keep in the whole is what the traced layers keep, repeated; else LayersDiffer."""
    stack = traced.stack
    start, stop = stack.head + stack.period, stack.head + 2 * stack.period
    added = stack.layers - stack.traced_layers
    expected = set()
    for side, layer, row in traced.rows.values():
        last = added if layer >= stop else 0
        expected.add((side, layer + last, row))
        if start <= layer < stop:
            shifts = range(stack.period, added + 1, stack.period)
            expected.update((side, layer + shift, row) for shift in shifts)
    if expected != set(rows.values()):
        raise LayersDiffer(f"{stack.path}: the plan does not keep the same of each period")


def _stands_for(traced: Traced, one: Any, other: Any, made: set[Any], forth: Mapping[Any, Any]) -> bool:
    """Whether what the first period reads is to it what the other is to the second."""
    if one in made:
        return forth.get(one) is other
    if other in made:
        return True  # what is carried from one period to the next; before the first it comes from elsewhere
    layer = _layer(one, traced.stack, traced.rows)
    if layer is None or layer < traced.stack.head:
        return one is other or same_constant(one, other)
    return _same_parameter(traced.stack, one, other) or _same_row(traced, one, other)


def _same_parameter(stack: LayerStack, one: Any, other: Any) -> bool:
    ours, theirs = slot_of(one), slot_of(other)
    if ours is None or theirs is None:
        return False
    moved = evolve(ours, parameter=stack.shifted(ours.parameter, stack.period))
    return moved == theirs and one.shape == other.shape and one.dtype == other.dtype


def _same_row(traced: Traced, one: Any, other: Any) -> bool:
    if one.name not in traced.rows or other.name not in traced.rows:
        return False
    (side, layer, row), there = traced.rows[one.name], traced.rows[other.name]
    return (side, layer + traced.stack.period, row) == there


def _told(node: Any) -> str:
    return f"{node.op_type} ({node.outputs[0].name})"


# The repetition


def _repeated(graph: Any, traced: Traced, forth: Mapping[Any, Any], names: Mapping[Place, str]) -> list[Any]:
    """The nodes of the periods that follow the second; the end, in place, becomes that of the last layers."""
    stack = traced.stack
    _end_moved(traced, names)
    now = {value: value for node in traced.second for value in node.outputs}
    moving = _moving(traced, {*forth, *now})
    nodes: list[Any] = []
    for shift in range(stack.period, stack.layers - stack.traced_layers + 1, stack.period):
        known = {one: now[other] for one, other in forth.items()}
        known |= {value: _moved(graph, traced, names, value, shift) for value in moving}
        for node in traced.second:
            copy = copied(node, known)
            copy.name = f"{node.name}.{shift}"
            for value, ours in zip(node.outputs, copy.outputs, strict=True):
                known[value] = ours
                ours.name = _name(traced, names, value, shift)
                if value.is_graph_output():
                    graph.outputs.append(ours)
            nodes.append(copy)
        now = {value: known[value] for value in now}
    for node in traced.end:
        reread(node, now)
    return nodes


def _end_moved(traced: Traced, names: Mapping[Place, str]) -> None:
    """Parameters and rows of the layers at the end become those of the last layers."""
    stack = traced.stack
    by, start = stack.layers - stack.traced_layers, stack.head + 2 * stack.period
    values = {value: None for node in traced.end for value in (*read(node), *node.outputs)}
    for value in values:
        layer = _layer(value, stack, traced.rows)
        if layer is not None and layer >= start and slot_of(value) is not None:
            value.name = _name(traced, names, value, by)
            value.meta[SLOT] = _slot_moved(stack, value, by)
    ends = [value for value in values if value.is_graph_input() or value.is_graph_output()]
    for value in [one for one in ends if one.name in traced.rows and traced.rows[one.name][1] >= start]:
        value.name = _name(traced, names, value, by)


def _moving(traced: Traced, inside: set[Any]) -> list[Any]:
    """What the second period reads from outside and a copy reads of its own layer; all else outside stays the same."""
    outside = dict.fromkeys(value for node in traced.second for value in read(node) if value not in inside)
    layers = {value: _layer(value, traced.stack, traced.rows) for value in outside}
    return [value for value, layer in layers.items() if layer is not None and layer >= traced.stack.head]


def _moved(graph: Any, traced: Traced, names: Mapping[Place, str], value: Any, by: int) -> Any:
    """What a copy reads where the second period reads what is of a layer: the same of its own."""
    import onnx_ir

    made = onnx_ir.Value(name=_name(traced, names, value, by), shape=value.shape, type=value.type)
    if slot_of(value) is None:
        graph.inputs.append(made)
    else:
        made.meta[SLOT] = _slot_moved(traced.stack, value, by)
        graph.initializers.add(made)
    return made


def _slot_moved(stack: LayerStack, value: Any, by: int) -> Any:
    known = slot_of(value)
    return evolve(known, parameter=stack.shifted(known.parameter, by)) if known else None


def _name(traced: Traced, names: Mapping[Place, str], value: Any, by: int) -> str:
    """The name of a value some layers further: by the plan, by its parameter, or its own and the distance, if any."""
    if not value.name:
        return ""  # nobody reads it
    if value.name in traced.rows and (value.is_graph_input() or value.is_graph_output()):
        side, layer, row = traced.rows[value.name]
        return names[side, layer + by, row]
    known = slot_of(value)
    if known is not None and known.parameter in value.name:
        return str(value.name).replace(known.parameter, traced.stack.shifted(known.parameter, by))
    return f"{value.name}.{by}"
