"""A pass over the sizes that a graph reads of its inputs."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.planned import Part


def share_size_reads(model: Any, part: Part) -> Any:
    """Before: inputs stand in the order of the plan. After: a size is read of the first input that has it.

    A trace reads the length of the past of any layer's cache; so read, no layer depends on another's for it.
    """
    first: dict[str, tuple[Any, int]] = {}
    symbols = dict(zip(model.graph.inputs, part.inputs.values(), strict=False))
    for value, axes in symbols.items():
        for axis, symbol in axes.items():
            first.setdefault(symbol, (value, axis))
    for node in [one for one in model.graph.all_nodes() if one.op_type == "Shape"]:
        axis = _axis(node)
        symbol = symbols.get(node.inputs[0], {}).get(axis) if axis is not None else None
        if symbol is not None:
            value, axis = first[symbol]
            node.replace_input_with(0, value)
            node.attributes.update(_at(axis))
    return model


def _axis(node: Any) -> int | None:
    """The one axis that a node tells the size of, if it is one."""
    start, end = (node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end"))
    return start if start is not None and end == start + 1 and start >= 0 else None


def _at(axis: int) -> dict[str, Any]:
    import onnx_ir

    return {name: onnx_ir.AttrInt64(name, value) for name, value in (("start", axis), ("end", axis + 1))}
