"""The pass that inserts a graph into another one, as a branch of an If."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnxfn.specs.errors import CaptureFailed

PREFIX = "filler."
"""The prefix of the names that values and nodes of the filler have in the graph."""


def insert_filler(model: Any, filler: Any, fills: Mapping[str, str]) -> Any:
    """Inserts a graph that computes inputs of another graph when they are empty.

    Before: inputs and outputs of both graphs have the names of the plan. Each output of the filler computes an input of
    the model (`fills`), and each input of the filler is also an input of the model.
    After: the graph begins with an If. If the first of the filled inputs has no elements, it runs the filler; else it
    passes these inputs on. The other nodes read the outputs of the If. Inputs and outputs are unchanged. The weights of
    the filler are initializers of the graph; shared weights are duplicates until `merge_slots` merges them. The filler
    cannot be used again.

    CaptureFailed if an output or an input of the filler does not correspond to an input of the model.
    """
    import onnx_ir

    inputs = {value.name: value for value in model.graph.inputs}
    _check_names("outputs", [fills.get(value.name, value.name) for value in filler.graph.outputs], inputs)
    _check_names("inputs", [value.name for value in filler.graph.inputs], inputs)
    filled = [inputs[fills.get(value.name, value.name)] for value in filler.graph.outputs]
    adopt(model, filler, PREFIX)
    chosen = [onnx_ir.val(f"{value.name}__filled", type=value.type, shape=value.shape) for value in filled]
    for value, output in zip(filled, chosen, strict=True):
        value.replace_all_uses_with(output)
    branches = {"then_branch": as_branch(filler.graph, PREFIX), "else_branch": _identity_branch(filled)}
    model.graph.insert_before(model.graph[0], _if_empty(filled[0], branches, chosen))
    return model


def adopt(model: Any, other: Any, prefix: str) -> None:
    """Gives the initializers and functions of another graph to a graph; the nodes of the other then read its inputs.

    An initializer whose name the graph has gets the prefix.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    for value in other.graph.inputs:
        value.replace_all_uses_with(inputs[value.name])
    names = {*model.graph.initializers, *(value.name for node in model.graph.all_nodes() for value in node.outputs)}
    for name, value in list(other.graph.initializers.items()):
        del other.graph.initializers[name]
        value.name = f"{prefix}{name}" if name in names else name
        model.graph.initializers.add(value)
    model.opset_imports.update({**other.opset_imports, **model.opset_imports})
    model.functions.update(other.functions)


def _check_names(side: str, names: Iterable[str], inputs: Mapping[str, Any]) -> None:
    if unknown := [name for name in names if name not in inputs]:
        raise CaptureFailed(
            f"the {side} of the filler must be inputs of the graph; unknown: {', '.join(unknown)}; "
            f"known: {', '.join(inputs)}"
        )


def as_branch(graph: Any, prefix: str) -> Any:
    """The nodes and outputs of a graph, taken out of it, as a branch; their names get the prefix."""
    import onnx_ir

    nodes, outputs = list(graph), list(graph.outputs)
    graph.outputs.clear()
    graph.remove(nodes)
    for node in nodes:
        node.name = f"{prefix}{node.name}"
        for value in node.outputs:
            value.name = f"{prefix}{value.name}"
    return onnx_ir.Graph([], outputs, nodes=nodes, name=prefix.rstrip("."))


def _identity_branch(values: Sequence[Any]) -> Any:
    """A branch that outputs these values."""
    import onnx_ir

    nodes = [onnx_ir.node("Identity", [value]) for value in values]
    outputs = [node.outputs[0] for node in nodes]
    for value, output in zip(values, outputs, strict=True):
        output.name, output.shape, output.type = f"{value.name}__passed", value.shape, value.type
    return onnx_ir.Graph([], outputs, nodes=nodes, name="passed")


def _if_empty(value: Any, branches: Mapping[str, Any], outputs: Sequence[Any]) -> list[Any]:
    """The nodes that run the `then_branch` if a tensor has no elements, else the `else_branch`."""
    import onnx_ir

    # One Size node instead of Shape and ReduceProd would do. But ONNX Runtime has no Size for float16 on a CPU: it
    # casts the tensor, and then uses that empty buffer for another tensor of the same symbolic shape.
    shape = onnx_ir.node("Shape", [value])
    size = onnx_ir.node("ReduceProd", [shape.outputs[0]], attributes={"keepdims": 0})
    zero = onnx_ir.node("Constant", [], attributes={"value": onnx_ir.tensor(0, dtype=onnx_ir.DataType.INT64)})
    empty = onnx_ir.node("Equal", [size.outputs[0], zero.outputs[0]])
    branch = onnx_ir.node("If", [empty.outputs[0]], attributes=branches, outputs=list(outputs))
    for name, node in (("shape", shape), ("size", size), ("zero", zero), ("empty", empty)):
        node.outputs[0].name = f"{PREFIX}{name}"
    return [shape, size, zero, empty, branch]
