"""Passes that name inputs, outputs and axes as the plan does, and passes for the metadata of a graph."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

from onnxfn.graphs.nodes.nodes import node_name, shape_of, subgraphs
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import Axis, AxisMap
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.conditions import formula_value, is_condition
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.version import VERSION

SOURCE, STACK_TRACE = "onnxfn.source", "pkg.torch.onnx.stack_trace"
"""The metadata of a node with the line of the model that computes it, and torch's stack trace."""

_SYMBOL = re.compile(r"\b[su]\d+\b")
"""A symbol of torch: s44 for a size of an input, u3 for a size that depends on data."""


def name_ports(model: Any, part: Part) -> Any:
    """Names the inputs and outputs of a graph, and their axes.

    Before: they are in the order of the plan. After: they have its names and symbols; all other shapes use these, too.
    CaptureFailed if the graph has other inputs or outputs than the plan, or an axis is fixed in one of them alone.
    """
    graph = model.graph
    _check_count(part, "inputs", graph.inputs, part.spec.inputs)
    _check_count(part, "outputs", graph.outputs, part.spec.outputs)
    _separate_outputs(graph)
    sizes = (
        (str(value.shape[index]), symbol)
        for value, axes in zip(graph.inputs, part.inputs.values(), strict=True)
        for index, symbol in axes.items()
        if value.shape is not None and index < len(value.shape)
    )
    symbols = {size: symbol for size, symbol in sizes if _SYMBOL.fullmatch(size)}
    ports = {*graph.inputs, *graph.outputs}
    inner = [value for node in graph.all_nodes() for value in node.outputs if value not in ports]
    for kind, values in (("inner", inner), ("weight", list(graph.initializers.values()))):
        for value in values:
            if value.name in {*part.inputs, *part.outputs}:
                value.name = f"{value.name}__{kind}"
    for value, tensor in zip((*graph.inputs, *graph.outputs), (*part.spec.inputs, *part.spec.outputs), strict=True):
        _name_port(part, value, tensor.name, graph_axes(part.spec, tensor))
    for value in inner:
        if value.shape is not None:
            value.shape = _renamed(value, symbols)
    return model


def order_ports(model: Any, part: Part) -> Any:
    """Puts the inputs and outputs of a graph in the order of the plan; CaptureFailed if one of the plan is missing."""
    sides = (("input", model.graph.inputs, part.inputs), ("output", model.graph.outputs, part.outputs))
    for side, values, planned in sides:
        by_name = {value.name: value for value in values}
        missing = [name for name in planned if name not in by_name]
        if missing:
            known = ", ".join(by_name)
            raise CaptureFailed(f"{part.name}: the graph has no {side} {', '.join(missing)}; it has {known}")
        values.clear()
        values.extend(by_name[name] for name in planned)
    return model


def name_nodes(model: Any, modules: Mapping[str, str], source_line: Callable[[str], str]) -> Any:
    """Names nodes after the innermost of the modules that ran, and their operators; removes torch's metadata.

    `modules`: from torch's path of a module to its own. `source_line`: from a stack trace, which has paths of this
    machine, to the line of the model that nodes keep as SOURCE, or "".
    """
    from onnx_ir.passes import common

    lines: dict[Any, str] = {}

    def name_inside(graph: Any, outer: str) -> None:
        for node in graph:
            # The paths of the modules that ran, the innermost last, and a name; `@1`: called again.
            scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes", "")[2:-2].split("', '")[:-1]
            paths = (each.partition("@")[0] for each in reversed(scopes))
            module = next((modules[path] for path in paths if path in modules), "") or outer
            node.name = node_name(module, node.op_type)
            lines[node] = source_line(node.metadata_props.get(STACK_TRACE, ""))
            for inner in subgraphs(node):
                name_inside(inner, module)

    name_inside(model.graph, "")
    common.ClearMetadataAndDocStringPass()(model)
    for node, line in lines.items():
        node.metadata_props.update({SOURCE: line} if line else {})
    for value in model.graph.initializers.values():
        value.metadata_props.clear()
    model.graph.name = "main"
    return model


def add_metadata(model: Any, facts: Mapping[str, str]) -> Any:
    """The graph with onnxfn and its version as producer, and with each fact that is not empty as `onnxfn.<name>`."""
    model.producer_name = "onnxfn"
    model.producer_version = VERSION
    model.metadata_props.update({f"onnxfn.{name}": fact for name, fact in facts.items()})
    for name in [name for name, fact in facts.items() if not fact]:
        del model.metadata_props[f"onnxfn.{name}"]
    return model


def _check_count(part: Part, side: str, values: Sequence[Any], planned: Collection[Any]) -> None:
    if len(values) != len(planned):
        names, planned_names = (", ".join(str(port.name) for port in ports) for ports in (values, planned))
        raise CaptureFailed(
            f"{part.name}: the graph has {len(values)} {side} ({names}), "
            f"but the plan has {len(planned)} ({planned_names})"
        )


def _separate_outputs(graph: Any) -> None:
    """Inserts an Identity before each output that is an input, an initializer or another output: names are unique."""
    import onnx_ir

    outputs = list(graph.outputs)
    for index, value in enumerate(outputs):
        if value.producer() is None or value in outputs[:index]:
            node = onnx_ir.node("Identity", [value])
            node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
            graph.append(node)
            graph.outputs[index] = node.outputs[0]


def _name_port(part: Part, value: Any, name: str, axes: AxisMap) -> None:
    """Gives an input or an output its name and the shape of the plan."""
    import onnx_ir

    sizes = list(value.shape) if value.shape is not None else [None] * len(axes.axes)
    if len(sizes) != len(axes.axes):
        raise CaptureFailed(
            f"{part.name}: {name!r} has {len(sizes)} axes ({value.shape}) in the graph, but the plan has {axes}"
        )
    value.name = name
    pairs = enumerate(zip(axes.axes, sizes, strict=True))
    value.shape = onnx_ir.Shape([_planned_size(part, name, index, axis, size) for index, (axis, size) in pairs])


def _constant(formula: str) -> int | None:
    """The number that a formula of sizes is at sizes with many divisors, as `48 * (s0 // 2) // s0` is 24; else None."""
    symbols = sorted({*_SYMBOL.findall(formula)})
    if not is_condition(f"{formula} == 0") or any(symbol.startswith("u") for symbol in symbols):
        return None
    tried = [dict(zip(symbols, count(start), strict=False)) for start in (1, 2, 7)]
    numbers = {formula_value(formula, {name: 5040 * times for name, times in each.items()}) for each in tried}
    return numbers.pop() if len(numbers) == 1 else None


def _planned_size(part: Part, name: str, index: int, axis: Axis, size: Any) -> int | str:
    """The size of an axis of the plan, an integer or a symbol, if the size in the graph agrees with it."""
    where = f"{part.name}: axis {index} of {name!r}"
    if axis.kind == "dynamic":
        if isinstance(size, int):
            edit = f"write {size} for it, or trace at sizes where it moves"
            raise CaptureFailed(
                f"{where} is dynamic in the plan ({axis.symbol}), but the trace fixes it to {size}; {edit}"
            )
        return axis.symbol
    size = size if isinstance(size, int) else _constant(str(size)) or size
    if not isinstance(size, int):
        edit = f"use gives({name!r}, ...) with a word such as 'n' for axis {index}"
        raise CaptureFailed(f"{where} is dynamic in the graph ({size}), but the plan has no symbol for it; {edit}")
    if axis.kind == "literal" and size != int(axis.symbol):
        raise CaptureFailed(f"{where} is {size} in the graph, but {axis.symbol} in the plan")
    return size


def _renamed(value: Any, symbols: Mapping[str, str]) -> Any:
    """The shape of a value with the symbols of the plan; a size with any other symbol becomes unknown."""
    import onnx_ir

    def renamed_size(size: int | str | None) -> int | str | None:
        if size is None or isinstance(size, int):
            return size
        is_known = symbols.keys() >= {*_SYMBOL.findall(size)}
        return _SYMBOL.sub(lambda match: symbols[match[0]], size) if is_known else None

    return onnx_ir.Shape(map(renamed_size, shape_of(value)))
