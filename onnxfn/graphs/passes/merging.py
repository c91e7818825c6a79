"""Passes that put one graph inside another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "filler."
"""What the names of a filler's values start with inside the graph that holds it."""


def insert_filler(model: Any, filler: Any, fills: Mapping[str, str]) -> Any:
    """A graph that computes those of its inputs that come empty.

    Before: both graphs are named; `fills` says which output of the filler is which input of the model, and all other
    inputs that the filler reads are inputs of the model too. After: one `If` stands first. Where the first of these
    inputs holds no element it runs the filler, else it passes the inputs through; all else in the graph reads what it
    gives. Inputs and outputs are as they were. All weights are initializers of the main graph, and those that are there
    twice are for `merged_slots` to find. The filler is used up.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    kept = [inputs[fills[value.name]] for value in filler.graph.outputs]
    for value in filler.graph.inputs:
        value.replace_all_uses_with(inputs[value.name])
    _weights_moved(model.graph, filler.graph)
    chosen = [_stand_in(value) for value in kept]
    for value, stand_in in zip(kept, chosen, strict=True):
        value.replace_all_uses_with(stand_in)
    branches = {"then_branch": _computed(filler.graph), "else_branch": _passed(kept)}
    _prepended(model.graph, _branched(kept[0], branches, chosen))
    model.opset_imports.update({**filler.opset_imports, **model.opset_imports})
    model.functions.update(filler.functions)
    return model


def _weights_moved(graph: Any, filler: Any) -> None:
    """The weights of the filler become the graph's, under names that nothing there has."""
    known = {*graph.initializers, *(value.name for node in graph.all_nodes() for value in node.outputs)}
    for name, value in list(filler.initializers.items()):
        del filler.initializers[name]
        value.name = f"{PREFIX}{name}" if name in known else name
        graph.initializers.add(value)


def _stand_in(value: Any) -> Any:
    import onnx_ir

    return onnx_ir.Value(name=f"{value.name}__filled", shape=value.shape, type=value.type)


def _computed(filler: Any) -> Any:
    """The nodes of the filler as a branch; its values keep clear of the names outside."""
    import onnx_ir

    nodes, outputs = list(filler), list(filler.outputs)
    filler.outputs.clear()
    filler.remove(nodes)
    for node in nodes:
        node.name = f"{PREFIX}{node.name}"
        for value in node.outputs:
            value.name = f"{PREFIX}{value.name}"
    return onnx_ir.Graph([], outputs, nodes=nodes, name="computed")


def _passed(kept: list[Any]) -> Any:
    import onnx_ir

    nodes = [onnx_ir.node("Identity", [value]) for value in kept]
    for value, node in zip(kept, nodes, strict=True):
        made = node.outputs[0]
        made.name, made.shape, made.type = f"{value.name}__passed", value.shape, value.type
    return onnx_ir.Graph([], [node.outputs[0] for node in nodes], nodes=nodes, name="passed")


def _branched(value: Any, branches: Mapping[str, Any], outputs: list[Any]) -> list[Any]:
    """The nodes that run the first branch where a tensor holds no element, and the second where it holds any.

    `Size` would say it in one node, but ONNX Runtime has none for float16 on a CPU: it casts the tensor, and then takes
    that empty buffer for another tensor of the same symbolic shape.
    """
    import onnx_ir

    shape = onnx_ir.node("Shape", [value])
    size = onnx_ir.node("ReduceProd", [shape.outputs[0]], attributes={"keepdims": 0})
    zero = onnx_ir.node("Constant", [], attributes={"value": onnx_ir.tensor(0, dtype=onnx_ir.DataType.INT64)})
    empty = onnx_ir.node("Equal", [size.outputs[0], zero.outputs[0]])
    branch = onnx_ir.node("If", [empty.outputs[0]], attributes=branches, outputs=outputs)
    for name, node in (("shape", shape), ("size", size), ("zero", zero), ("empty", empty)):
        node.outputs[0].name = f"{PREFIX}{name}"
    return [shape, size, zero, empty, branch]


def _prepended(graph: Any, nodes: list[Any]) -> None:
    first = next(iter(graph), None)
    if first is None:
        graph.extend(nodes)
    else:
        graph.insert_before(first, nodes)
