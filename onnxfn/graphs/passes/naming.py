"""Passes that give a graph the names that the plan says, and prove that its axes are the planned ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onnxfn.specs.axes import Axis, AxisMap
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.fixed_axes import graph_axes
from onnxfn.specs.planned import Part
from onnxfn.specs.version import VERSION

# What torch calls its symbols: s44 for a size of an input, u3 for one that depends on data.
_SYMBOL = re.compile(r"\b[su]\d+\b")


def name_ports(model: Any, part: Part) -> Any:
    """Before: inputs and outputs stand in the order of the plan. After: they have its names and its axes.

    Raises CaptureFailed when the graph has other inputs or outputs than the plan, when an axis that the plan lets move
    is a number in the graph, or when one moves that the plan does not name.
    """
    graph = model.graph
    _counted(part, "inputs", graph.inputs, part.spec.inputs)
    _counted(part, "outputs", graph.outputs, part.spec.outputs)
    _outputs_apart(graph)
    symbols = _symbols(graph.inputs, part)
    _evade(graph, {*part.inputs, *part.outputs})
    for value, taken in zip(graph.inputs, part.spec.inputs, strict=True):
        _axes(part, value, taken.name, graph_axes(part.spec, taken))
    for value, given in zip(graph.outputs, part.spec.outputs, strict=True):
        _axes(part, value, given.name, graph_axes(part.spec, given))
    _inner(graph, symbols)
    return model


def order_ports(model: Any, part: Part) -> Any:
    """Before: inputs and outputs have the names of the plan. After: they stand in its order."""
    for values, planned in ((model.graph.inputs, part.inputs), (model.graph.outputs, part.outputs)):
        known = {value.name: value for value in values}
        values.clear()
        values.extend(known[name] for name in planned)
    return model


def strip_metadata(model: Any) -> Any:
    """Before: nodes carry torch's notes, stack traces with paths of this machine among them. After: no notes."""
    from onnx_ir.passes import common

    common.ClearMetadataAndDocStringPass()(model)
    model.graph.name = "main"
    return model


def add_metadata(model: Any, facts: Mapping[str, str]) -> Any:
    """After: the model says what made it, for what, and of what."""
    model.producer_name = "onnxfn"
    model.producer_version = VERSION
    model.metadata_props.update({f"onnxfn.{name}": fact for name, fact in facts.items()})
    return model


def _counted(part: Part, what: str, there: Any, planned: Any) -> None:
    if len(there) != len(planned):
        names = [value.name for value in there]
        raise CaptureFailed(
            f"{part.name}: the graph has {len(there)} {what} ({', '.join(names)}) where the plan has {len(planned)} "
            f"({', '.join(one.name for one in planned)})"
        )


def _outputs_apart(graph: Any) -> None:
    """An output that is an input, an initializer or another output goes through an Identity, so that it has a name."""
    import onnx_ir

    seen: set[int] = set()
    for index, value in enumerate(list(graph.outputs)):
        if value.producer() is None or id(value) in seen:
            node = onnx_ir.node("Identity", [value])
            node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
        seen.add(id(value))


def _evade(graph: Any, taken: set[str]) -> None:
    """Values inside the graph leave the names that inputs and outputs are going to have."""
    ends = {id(value) for value in (*graph.inputs, *graph.outputs)}
    values = [value for node in graph.all_nodes() for value in node.outputs]
    for value in values:
        if value.name in taken and id(value) not in ends:
            value.name = f"{value.name}__inner"
    for value in list(graph.initializers.values()):
        if value.name in taken:
            value.name = f"{value.name}__weight"


def _axes(part: Part, value: Any, name: str, axes: AxisMap) -> None:
    import onnx_ir

    shape = list(value.shape) if value.shape is not None else [None] * len(axes.axes)
    if len(shape) != len(axes.axes):
        raise CaptureFailed(f"{part.name}: {name!r} has {len(shape)} axes ({value.shape}) where the plan says {axes}")
    value.name = name
    value.shape = onnx_ir.Shape(
        [
            _axis(part, name, index, planned, there)
            for index, (planned, there) in enumerate(zip(axes.axes, shape, strict=True))
        ]
    )


def _axis(part: Part, name: str, index: int, planned: Axis, there: Any) -> int | str:
    if planned.kind == "dynamic":
        if isinstance(there, int):
            raise CaptureFailed(
                f"{part.name}: axis {index} of {name!r} should move as {planned.symbol!r}; the model fixes it: {there}"
            )
        return planned.symbol
    if not isinstance(there, int):
        raise CaptureFailed(f"{part.name}: axis {index} of {name!r} moves ({there}), but the plan gives it no name")
    if planned.kind == "literal" and there != int(planned.symbol):
        raise CaptureFailed(f"{part.name}: axis {index} of {name!r} is {there} where the plan says {planned.symbol}")
    return there


def _symbols(values: Any, part: Part) -> dict[str, str]:
    """What torch calls each size -> what the plan calls it."""
    return {
        str(value.shape[index]): symbol
        for value, axes in zip(values, part.inputs.values(), strict=True)
        for index, symbol in axes.items()
        if value.shape is not None and _SYMBOL.fullmatch(str(value.shape[index]))
    }


def _inner(graph: Any, symbols: dict[str, str]) -> None:
    """Shapes inside the graph speak of the plan's sizes; one that speaks of another size says nothing of that axis."""
    ends = {id(value) for value in (*graph.inputs, *graph.outputs)}
    for node in graph.all_nodes():
        for value in node.outputs:
            if value.shape is not None and id(value) not in ends:
                value.shape = _reworded(value.shape, symbols)


def _reworded(shape: Any, symbols: dict[str, str]) -> Any:
    import onnx_ir

    def word(there: Any) -> int | str | None:
        if isinstance(there, int):
            return there
        text = str(there.value if hasattr(there, "value") else there)
        found = _SYMBOL.findall(text)
        if text == "None" or any(symbol not in symbols for symbol in found):
            return None
        return _SYMBOL.sub(lambda match: symbols[match[0]], text)

    return onnx_ir.Shape([word(there) for there in shape])
